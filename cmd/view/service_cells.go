package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podrun/podrun/internal/event"
)

// ServiceCells returns the cells after NAME that 'kubectl get service' prints.
func ServiceCells(s *corev1.Service, wide bool) []string {
	var ports []string
	for _, p := range s.Spec.Ports {
		text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			text = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
		ports = append(ports, text)
	}
	return []string{string(s.Spec.Type), OrNone(s.Spec.ClusterIP), externalCell(s, wide), OrNone(strings.Join(ports, ","))}
}

// ingressWidth is the number of bytes of a load balancer's addresses that kubectl prints without -o wide.
const ingressWidth = 16

// externalCell returns the external addresses of a Service.
func externalCell(s *corev1.Service, wide bool) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
	default:
		return OrNone(strings.Join(s.Spec.ExternalIPs, ","))
	}
	var ingress []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		if address := cmp.Or(i.IP, i.Hostname); address != "" {
			ingress = append(ingress, address)
		}
	}
	slices.Sort(ingress)
	text := strings.Join(slices.Compact(ingress), ",")
	if !wide && len(text) > ingressWidth {
		text = text[:ingressWidth-len("...")] + "..."
	}
	text = strings.Trim(text+","+strings.Join(s.Spec.ExternalIPs, ","), ",")
	return cmp.Or(text, "<pending>")
}

// SliceCells returns the cells after NAME that 'kubectl get endpointslice' prints.
func SliceCells(s *discoveryv1.EndpointSlice) []string {
	var ports, addresses []string
	for _, p := range s.Ports {
		ports = append(ports, fmt.Sprint(*p.Port))
	}
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	const shown = 3 // as in kubectl
	if more := len(addresses) - shown; more > 0 {
		addresses = append(addresses[:shown:shown], fmt.Sprintf("+ %d more...", more))
	}
	text := OrNone(strings.Join(addresses, ","))
	if len(addresses) == 0 {
		text = "<unset>"
	}
	return []string{string(s.AddressType), orUnset(strings.Join(ports, ",")), text}
}

func orUnset(text string) string {
	if text == "" {
		return "<unset>"
	}
	return text
}

// Service writes the fields that 'kubectl describe service' (v1.36) prints, and the source. If events is nil, it
// writes no table of events.
func (d *Description) Service(s *corev1.Service, slicesOf []*discoveryv1.EndpointSlice, origin string, events []event.Event) {
	d.metadata(&s.ObjectMeta)
	spec := s.Spec
	var selector []string
	selector = append(selector, Pairs(spec.Selector)...)
	d.row(0, "Selector:", OrNone(strings.Join(selector, ",")))
	d.row(0, "Type:", string(spec.Type))
	if spec.IPFamilyPolicy != nil {
		d.row(0, "IP Family Policy:", string(*spec.IPFamilyPolicy))
	}
	var families []string
	for _, f := range spec.IPFamilies {
		families = append(families, string(f))
	}
	d.row(0, "IP Families:", OrNone(strings.Join(families, ",")))
	d.row(0, "IP:", spec.ClusterIP)
	d.row(0, "IPs:", OrNone(strings.Join(spec.ClusterIPs, ",")))
	d.optionalRow(0, "External IPs", strings.Join(spec.ExternalIPs, ","))
	d.optionalRow(0, "Desired LoadBalancer IP", spec.LoadBalancerIP)
	d.optionalRow(0, "External Name", spec.ExternalName)
	var ingress []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		address := cmp.Or(i.IP, i.Hostname)
		if i.IP != "" && i.IPMode != nil {
			address += " (" + string(*i.IPMode) + ")"
		}
		ingress = append(ingress, address)
	}
	d.optionalRow(0, "LoadBalancer Ingress", strings.Join(ingress, ", "))
	for _, p := range spec.Ports {
		d.row(0, "Port:", orUnset(p.Name), fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		d.row(0, "TargetPort:", p.TargetPort.String()+"/"+string(p.Protocol))
		if p.AppProtocol != nil {
			d.row(0, "AppProtocol:", *p.AppProtocol)
		}
		if p.NodePort > 0 {
			d.row(0, "NodePort:", orUnset(p.Name), fmt.Sprintf("%d/%s", p.NodePort, p.Protocol))
		}
		d.row(0, "Endpoints:", endpointsText(endpointsOf(p, slicesOf), len(slicesOf) > 0))
	}
	d.row(0, "Session Affinity:", string(spec.SessionAffinity))
	d.optionalRow(0, "External Traffic Policy", string(spec.ExternalTrafficPolicy))
	if spec.InternalTrafficPolicy != nil {
		d.row(0, "Internal Traffic Policy:", string(*spec.InternalTrafficPolicy))
	}
	if spec.HealthCheckNodePort != 0 {
		d.row(0, "HealthCheck NodePort:", strconv.Itoa(int(spec.HealthCheckNodePort)))
	}
	d.optionalRow(0, "LoadBalancer Source Ranges", strings.Join(spec.LoadBalancerSourceRanges, ","))
	if spec.TrafficDistribution != nil {
		d.row(0, "Traffic Distribution:", *spec.TrafficDistribution)
	}
	d.optionalRow(0, "Source", origin)
	if events != nil {
		d.events(events, func(event.Event) string { return "" })
	}
}

// shownEndpoints is the number of endpoints of a port that kubectl prints.
const shownEndpoints = 3

// endpointsText lists the endpoints of a port. As in kubectl, the text is <none> only for a Service
// without EndpointSlices.
func endpointsText(endpoints []string, hasSlices bool) string {
	switch more := len(endpoints) - shownEndpoints; {
	case !hasSlices:
		return "<none>"
	case more > 0:
		return fmt.Sprintf("%s + %d more...", strings.Join(endpoints[:shownEndpoints], ","), more)
	default:
		return strings.Join(endpoints, ",")
	}
}

// endpointsOf returns the ready endpoints of a port.
func endpointsOf(port corev1.ServicePort, list []*discoveryv1.EndpointSlice) (out []string) {
	for _, s := range list {
		i := slices.IndexFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return *p.Name == port.Name && *p.Protocol == port.Protocol })
		if i < 0 {
			continue
		}
		for _, e := range s.Endpoints {
			if *e.Conditions.Ready {
				address := e.Addresses[0]
				if s.AddressType == discoveryv1.AddressTypeIPv6 {
					address = "[" + address + "]"
				}
				out = append(out, fmt.Sprintf("%s:%d", address, *s.Ports[i].Port))
			}
		}
	}
	return out
}

package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Slices returns the EndpointSlices of a Service: one for each address family and, as in a cluster,
// for each set of pod ports to which its ports are forwarded. node is the name of this host.
func Slices(s *corev1.Service, pods []Pod, node string) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	byPorts := map[string]*discoveryv1.EndpointSlice{}
	selected := Selected(s, pods)
	for _, v4 := range []bool{true, false} {
		clear(byPorts)
		for _, p := range selected {
			ip := p.address(v4)
			if !ip.IsValid() || !hasFamily(s, ip) {
				continue
			}
			ports := slicePorts(s, p)
			key := fmt.Sprint(ports)
			one := byPorts[key]
			if one == nil {
				one = newSlice(s, ip, len(byPorts))
				for _, port := range ports {
					one.Ports = append(one.Ports, port.slicePort())
				}
				byPorts[key] = one
				out = append(out, one)
			}
			one.Endpoints = append(one.Endpoints, endpointOf(s, p, ip, node))
		}
	}
	return out
}

// hasFamily reports whether a Service has endpoints of the same family as an address.
func hasFamily(s *corev1.Service, ip netip.Addr) bool {
	return !HasVirtualIP(s) || len(s.Spec.ClusterIPs) == 0 || slices.Contains(s.Spec.IPFamilies, familyOf(ip))
}

// resolved is a port of a Service with the pod's port to which it is forwarded.
type resolved struct {
	name     string
	protocol corev1.Protocol
	port     int32
}

func (r resolved) slicePort() discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &r.name, Protocol: &r.protocol, Port: &r.port}
}

func slicePorts(s *corev1.Service, p Pod) (out []resolved) {
	for _, port := range s.Spec.Ports {
		if n, ok := p.target(port); ok {
			out = append(out, resolved{port.Name, protocolOf(port.Protocol), int32(n)})
		}
	}
	return out
}

func newSlice(s *corev1.Service, ip netip.Addr, n int) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressType(familyOf(ip))
	name := s.Name + "-" + strings.ToLower(string(family))
	if n > 0 {
		name += fmt.Sprintf("-%d", n)
	}
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, CreationTimestamp: s.CreationTimestamp,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
		AddressType: family, Endpoints: []discoveryv1.Endpoint{}, Ports: []discoveryv1.EndpointPort{},
	}
}

func endpointOf(s *corev1.Service, p Pod, ip netip.Addr, node string) discoveryv1.Endpoint {
	ready, serving, terminating := serves(s, p), p.Ready, p.Terminating
	out := discoveryv1.Endpoint{
		Addresses:  []string{ip.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)},
	}
	if node != "" {
		out.NodeName = &node
	}
	if IsHeadless(s) && p.Hostname != "" && p.Subdomain == s.Name {
		out.Hostname = &p.Hostname
	}
	return out
}

// Notes describes the settings of a Service that have no effect on one host. Each string completes a
// sentence that begins with "Service NAME".
func Notes(s *corev1.Service) (out []string) {
	spec := s.Spec
	external := spec.Type == corev1.ServiceTypeExternalName
	if external {
		if _, err := netip.ParseAddr(spec.ExternalName); err != nil {
			out = append(out, fmt.Sprintf("has the externalName %s, which is not an IP address: pods cannot resolve its name, because a hosts file cannot map a name to another name", spec.ExternalName))
		}
	}
	if len(spec.Selector) == 0 && !external {
		out = append(out, "has no selector: podrun does not read EndpointSlices, so it has no endpoints")
	}
	if len(spec.ExternalIPs) > 0 {
		out = append(out, "has externalIPs, which podrun ignores")
	}
	if len(spec.LoadBalancerSourceRanges) > 0 {
		out = append(out, "has loadBalancerSourceRanges, which podrun ignores: its node ports accept all clients")
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		out = append(out, "has externalTrafficPolicy Local: podrun reserves a healthCheckNodePort, but no process answers health checks on it")
	}
	return out
}

package service

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pod contains the facts about a pod from which endpoints are computed.
type Pod struct {
	Namespace, Name, UID string
	Labels               map[string]string
	IPs                  []netip.Addr // the node's IPs if the pod uses the host's network; empty before the sandbox exists
	Ready                bool
	Terminating          bool   // a command is stopping or removing the pod; Ready then means that it still serves
	Hostname, Subdomain  string // of the spec
	// Ports are the ports of app containers and sidecars.
	Ports []corev1.ContainerPort
}

// address returns the pod's first address of a family. It is invalid if there is none.
func (p Pod) address(v4 bool) netip.Addr {
	for _, ip := range p.IPs {
		if ip.Is4() == v4 {
			return ip
		}
	}
	return netip.Addr{}
}

// target returns the pod's port to which a port of a Service is forwarded. It returns false if the
// pod has no port with this name.
func (p Pod) target(port corev1.ServicePort) (uint16, bool) {
	if port.TargetPort.Type == intstr.Int || port.TargetPort.StrVal == "" {
		if n := port.TargetPort.IntVal; n > 0 {
			return uint16(n), true
		}
		return uint16(port.Port), true
	}
	for _, c := range p.Ports {
		if c.Name == port.TargetPort.StrVal && protocolOf(c.Protocol) == protocolOf(port.Protocol) {
			return uint16(c.ContainerPort), true
		}
	}
	return 0, false
}

func protocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

// IsHeadless reports whether a Service resolves to its pods instead of a virtual IP.
func IsHeadless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// HasVirtualIP reports whether a Service requests a virtual IP.
func HasVirtualIP(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && !IsHeadless(s)
}

// Selected returns the pods that a Service selects, sorted by name, whether they are ready or not.
// As in a cluster, it omits pods without an IP address.
func Selected(s *corev1.Service, pods []Pod) []Pod {
	if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	match := labels.SelectorFromSet(s.Spec.Selector)
	var out []Pod
	for _, p := range pods {
		if p.Namespace == s.Namespace && len(p.IPs) > 0 && match.Matches(labels.Set(p.Labels)) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return strings.Compare(a.Name+"/"+a.UID, b.Name+"/"+b.UID) })
	return out
}

// serves reports whether a Service sends new connections to a pod that it selects.
func serves(s *corev1.Service, p Pod) bool {
	return s.Spec.PublishNotReadyAddresses || p.Ready && !p.Terminating
}

// endpoints returns the addresses of one family to which a port of a Service is forwarded. As in
// kube-proxy (CategorizeEndpoints in pkg/proxy), these are the ready pods or, if there is none, the
// terminating pods that still serve.
func endpoints(s *corev1.Service, port corev1.ServicePort, v4 bool, pods []Pod) []netip.AddrPort {
	var out, terminating []netip.AddrPort
	for _, p := range Selected(s, pods) {
		to, named := p.target(port)
		ip := p.address(v4)
		switch {
		case !named || !ip.IsValid():
		case serves(s, p):
			out = append(out, netip.AddrPortFrom(ip, to))
		case p.Ready && p.Terminating:
			terminating = append(terminating, netip.AddrPortFrom(ip, to))
		}
	}
	if len(out) == 0 {
		out = terminating
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// Unserved returns the Services that select pods by labels, but have no endpoint: connections to them fail.
func Unserved(services []*corev1.Service, pods []Pod) (out []*corev1.Service) {
	for _, s := range services {
		selects := len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
		if selects && !slices.ContainsFunc(Selected(s, pods), func(p Pod) bool { return serves(s, p) || p.Ready }) {
			out = append(out, s)
		}
	}
	return out
}

// Target returns a pod to which connections to a Service can be forwarded: a ready pod if there is
// one. It returns false if the Service selects no pod.
func Target(s *corev1.Service, pods []Pod) (Pod, bool) {
	selected := Selected(s, pods)
	for _, p := range selected {
		if serves(s, p) {
			return p, true
		}
	}
	if len(selected) > 0 {
		return selected[0], true
	}
	return Pod{}, false
}

// PortOf returns the pod's port for a port of a Service, which is given as a number or a name.
func (p Pod) PortOf(s *corev1.Service, port string) (int, bool) {
	for _, one := range s.Spec.Ports {
		if one.Name == port || strconv.Itoa(int(one.Port)) == port {
			n, ok := p.target(one)
			return int(n), ok
		}
	}
	return 0, false
}

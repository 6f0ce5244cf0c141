package admission

import (
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
)

const portsText = "node(s) didn't have free ports for the requested pod ports"

// checkHostPorts refuses host ports that another pod or a Service uses, or on which a process listens.
// The rules of a Service would redirect the pod's traffic. If a process listens, the runtime would redirect its traffic to the pod. If the pod is in the host
// network, it would fail to bind the port.
func checkHostPorts(q question) problem.List {
	var out problem.List
	for _, want := range host.HostPorts(q.pod) {
		if want.Protocol == corev1.ProtocolSCTP && q.facts.SCTP != nil && !*q.facts.SCTP {
			out = append(out, problem.Problem{Field: want.Field, Reason: "SCTP", Warning: true,
				Message: "SCTP is not available in the kernel (its module may not be loaded): podrun cannot check whether the port is free, and containers may fail to listen on it",
				Hint:    "modprobe sctp"})
		}
		holder, hint := portHolder(q, want)
		if holder == "" {
			continue
		}
		out = append(out, problem.Problem{
			Field: want.Field, Reason: "NodePorts", Hint: hint,
			Message: predicate("NodePorts", portsText, fmt.Sprintf("port %d/%s of the host is taken by %s", want.Port, want.Protocol, holder)),
		})
	}
	return out
}

// portHolder returns a description of the pod, Service or process that uses a port. It also returns a
// hint. Both are empty if the port is free.
func portHolder(q question, want host.HostPort) (holder, hint string) {
	for _, p := range q.countedPods() {
		if !occupies(p) {
			continue
		}
		for _, have := range p.HostPorts {
			if have.Protocol == want.Protocol && have.Port == want.Port && overlap(want.IP, have.IP, false) {
				if among(q.admitted, p) {
					return fmt.Sprintf("pod %s/%s of the same command", p.Namespace, p.Name), "use another port"
				}
				return fmt.Sprintf("pod %s/%s", p.Namespace, p.Name), "delete that pod, or use another port"
			}
		}
	}
	for _, have := range q.facts.NodePorts {
		if have.Protocol == want.Protocol && have.Port == want.Port {
			return "the node port of Service " + have.Service, "use another port, or delete that Service"
		}
	}
	for _, l := range q.facts.Listeners {
		if l.Protocol != want.Protocol || l.Port != want.Port || !overlap(want.IP, l.IP, l.V6Only) || ofReplaced(q, l) {
			continue
		}
		return listenerName(l), "stop that process, or use another port"
	}
	return "", ""
}

func listenerName(l host.Listener) string {
	name := "a process that is not visible to podrun"
	if l.PID != 0 {
		name = fmt.Sprintf("process %d (%s)", l.PID, l.Process)
	}
	address := l.IP
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return fmt.Sprintf("%s, which listens on %s:%d", name, address, l.Port)
}

// ofReplaced reports whether a listener probably belongs to a pod that this command replaces. Such
// a pod is in the host network and declares the port. The replaced pod stops before the new one
// starts.
func ofReplaced(q question, l host.Listener) bool {
	for _, p := range q.replaced {
		if !p.HostNetwork || !occupies(p) {
			continue
		}
		for _, have := range p.HostPorts {
			if have.Port == l.Port && have.Protocol == l.Protocol {
				return true
			}
		}
	}
	return false
}

// overlap reports whether two addresses can receive the same packet. "" and 0.0.0.0 mean all
// addresses of the host. :: means the same, unless the socket is IPv6-only.
func overlap(want, have string, haveV6Only bool) bool {
	w, h := net.ParseIP(want), net.ParseIP(have)
	switch {
	case haveV6Only:
		return want == "" || w != nil && w.To4() == nil && (w.IsUnspecified() || h.IsUnspecified() || w.Equal(h))
	case want == "" || have == "":
		return true
	case w == nil || h == nil:
		return want == have
	case w.IsUnspecified() || h.IsUnspecified():
		// A wildcard address covers only its own IP family. Only :: covers both.
		return (w.To4() == nil) == (h.To4() == nil) || isV6Wildcard(w) || isV6Wildcard(h)
	}
	return w.Equal(h)
}

func isV6Wildcard(ip net.IP) bool { return ip.To4() == nil && ip.IsUnspecified() }

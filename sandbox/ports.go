package sandbox

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"
)

// portMappings returns the ports of the app containers, including those without a hostPort. As
// in the kubelet (kuberuntime_sandbox.go), it omits the ports of init containers and sidecars.
func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	for i := range pod.Spec.Containers {
		seen := map[string]bool{}
		for _, p := range pod.Spec.Containers[i].Ports {
			if name := portName(p); !seen[name] {
				seen[name] = true
				out = append(out, &runtimeapi.PortMapping{
					Protocol:      protocol(p.Protocol),
					ContainerPort: p.ContainerPort,
					HostPort:      p.HostPort,
					HostIp:        p.HostIP,
				})
			}
		}
	}
	return out
}

// portName identifies a port within a container. It includes the IP family, because a pod may
// map the same port once for IPv4 and once for IPv6 (issue 82373).
func portName(p corev1.ContainerPort) string {
	if p.Name != "" {
		return p.Name
	}
	family := "any"
	switch {
	case netutils.IsIPv6String(p.HostIP):
		family = "v6"
	case p.HostIP != "":
		family = "v4"
	}
	return fmt.Sprintf("%s-%s-%s:%d:%d", family, p.Protocol, p.HostIP, p.ContainerPort, p.HostPort)
}

func protocol(p corev1.Protocol) runtimeapi.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case corev1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default:
		return runtimeapi.Protocol_TCP
	}
}

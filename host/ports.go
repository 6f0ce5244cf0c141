package host

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// HostPorts lists the host ports of a pod's app containers and sidecars, in order. With
// hostNetwork, every port is a host port, because the API's defaulting sets hostPort.
func HostPorts(pod *corev1.Pod) []HostPort {
	var out []HostPort
	add := func(field string, c *corev1.Container) {
		for i, p := range c.Ports {
			port := p.HostPort
			if port == 0 && pod.Spec.HostNetwork {
				port = p.ContainerPort
			}
			if port == 0 {
				continue
			}
			protocol := p.Protocol
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			out = append(out, HostPort{
				Protocol: protocol, IP: p.HostIP, Port: port, Field: fmt.Sprintf("%s.ports[%d].hostPort", field, i),
			})
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if podutil.IsRestartableInitContainer(c) {
			add(fmt.Sprintf("spec.initContainers[%d]", i), c)
		}
	}
	for i := range pod.Spec.Containers {
		add(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i])
	}
	return out
}

package service

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The range of node ports that podrun assigns and accepts: the API server's default. Outside this
// range, a node port could conflict with a service of the host.
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

// NodePort is a port of the host that a Service uses.
type NodePort struct {
	Port     int32
	Protocol corev1.Protocol
}

// String returns a text such as "30080/TCP".
func (p NodePort) String() string { return fmt.Sprintf("%d/%s", p.Port, p.Protocol) }

// NodePorts returns the node ports of a Service, including the one of health checks.
func NodePorts(s *corev1.Service) (out []NodePort) {
	for _, p := range s.Spec.Ports {
		if p.NodePort > 0 {
			out = append(out, NodePort{p.NodePort, protocolOf(p.Protocol)})
		}
	}
	if p := s.Spec.HealthCheckNodePort; p > 0 {
		out = append(out, NodePort{p, corev1.ProtocolTCP})
	}
	return out
}

// nodePortField is a field of a Service that contains a node port.
type nodePortField struct {
	path     string // of the field, for messages
	value    *int32
	protocol corev1.Protocol
	seed     string // selects the first candidate
	assign   bool   // podrun assigns a port if the Service specifies none
	previous int32  // in the previous record
}

func (f nodePortField) port() NodePort { return NodePort{*f.value, f.protocol} }

// nodePortFields returns the fields of a Service that contain node ports. The API finds a port in the
// previous record by its name (patchAllocatedValues in registry/core/service/storage).
func nodePortFields(s, previous *corev1.Service) (out []nodePortField) {
	spec := &s.Spec
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	assign := spec.Type == corev1.ServiceTypeNodePort || balanced && (spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		protocol := protocolOf(p.Protocol)
		f := nodePortField{path: fmt.Sprintf("spec.ports[%d].nodePort", i), value: &p.NodePort, protocol: protocol, assign: assign,
			seed: fmt.Sprintf("%s:%d/%s", Key(s), p.Port, protocol)}
		if previous != nil {
			for _, o := range previous.Spec.Ports {
				if o.Name == p.Name {
					f.previous = o.NodePort
				}
			}
		}
		out = append(out, f)
	}
	checked := nodePortField{path: "spec.healthCheckNodePort", value: &spec.HealthCheckNodePort, protocol: corev1.ProtocolTCP, seed: Key(s),
		assign: balanced && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
	if previous != nil {
		checked.previous = previous.Spec.HealthCheckNodePort
	}
	return append(out, checked)
}

// assignNodePorts sets the node ports that the Service does not specify, as the API's storage does
// (initNodePorts and allocHealthCheckNodePort). A Service keeps the port in its record, even if a process
// uses the port now, because clients know the port.
func assignNodePorts(s, previous *corev1.Service, others []*corev1.Service, used map[NodePort]string, forwards bool) error {
	fields := nodePortFields(s, previous)
	if !forwards || s.Spec.Type != corev1.ServiceTypeNodePort && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		for _, f := range fields {
			*f.value = 0
		}
		return nil
	}
	taken := map[NodePort]string{}
	for _, o := range others {
		for _, p := range NodePorts(o) {
			taken[p] = Key(o)
		}
	}
	var kept []NodePort
	if previous != nil {
		kept = NodePorts(previous)
	}
	for _, f := range fields {
		if *f.value == 0 {
			continue
		}
		p := f.port()
		if p.Port < firstNodePort || p.Port > lastNodePort {
			return fmt.Errorf("%s: %d is not in the range %d-%d", f.path, p.Port, firstNodePort, lastNodePort)
		}
		if by := taken[p]; by != "" {
			return fmt.Errorf("%s: Service %s uses %s", f.path, by, p)
		}
		if by := used[p]; by != "" && !slices.Contains(kept, p) {
			return fmt.Errorf("%s: %s is %s", f.path, p, by)
		}
		taken[p] = Key(s)
	}
	for _, f := range fields {
		if *f.value == 0 && f.assign && f.previous != 0 && taken[NodePort{f.previous, f.protocol}] == "" {
			*f.value = f.previous
			taken[f.port()] = Key(s)
		}
	}
	for _, f := range fields {
		if *f.value != 0 || !f.assign {
			continue
		}
		if *f.value = freeNodePort(s, f, taken, used); *f.value == 0 {
			return fmt.Errorf("%s: every port of %d-%d is in use", f.path, firstNodePort, lastNodePort)
		}
		taken[f.port()] = Key(s)
	}
	return nil
}

// freeNodePort returns a free node port, or 0. As in the API, the ports of one number, of several
// protocols, have the same node port, unless it is in use.
func freeNodePort(s *corev1.Service, f nodePortField, taken, used map[NodePort]string) int32 {
	const count = lastNodePort - firstNodePort + 1
	candidates := make([]int32, 0, count+1)
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; &p.NodePort == f.value {
			for _, o := range s.Spec.Ports {
				if o.Port == p.Port && o.NodePort != 0 {
					candidates = append(candidates, o.NodePort)
				}
			}
		}
	}
	start := hashOf(f.seed) % count
	for n := range uint32(count) {
		candidates = append(candidates, firstNodePort+int32((start+n)%count))
	}
	for _, c := range candidates {
		if p := (NodePort{c, f.protocol}); taken[p] == "" && used[p] == "" {
			return c
		}
	}
	return 0
}

package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The limits of a network. podrun-net refuses a whole table that exceeds the last two
// (embedded/bundle/podrun-net/services.go), because the kernel receives all rules in one transaction.
const (
	maxPortsOfOne = 1000 // ports of one Service at all its virtual IPs
	maxPorts      = 4000
	maxEndpoints  = 10_000
)

// The limits of the names in the hosts files of pods. A file of the longest names has about 1 MB.
const (
	maxNamesOfOne = 500
	maxNames      = 2000
)

// maxObject limits the size of one Service in bytes: its record must be smaller than a state file.
const maxObject = 512 << 10

// CheckLimits returns an error if podrun cannot provide a Service (a result of Assign), whatever other
// Services there are.
func CheckLimits(s *corev1.Service) error {
	if err := CheckSize(s); err != nil {
		return err
	}
	if ports := len(s.Spec.Ports) * len(s.Spec.ClusterIPs); HasVirtualIP(s) && ports > maxPortsOfOne {
		return fmt.Errorf("has %d ports at its virtual IPs, but a Service may have at most %d", ports, maxPortsOfOne)
	}
	return nil
}

// CheckSize returns an error if podrun cannot record a Service.
func CheckSize(s *corev1.Service) error {
	data, err := json.Marshal(s)
	if err == nil && len(data) > maxObject {
		err = fmt.Errorf("has %d bytes, but a Service may have at most %d", len(data), maxObject)
	}
	return err
}

// Omitted returns the Services that exceed the limits of the network, by Key, with the reasons. The others
// are not affected: older Services take precedence, so that a new one cannot replace them.
func Omitted(services []*corev1.Service, pods []Pod) map[string]string {
	out := map[string]string{}
	ports, endpoints := 0, 0
	for _, s := range byAge(services) {
		if !HasVirtualIP(s) {
			continue
		}
		p, e := len(s.Spec.Ports)*len(s.Spec.ClusterIPs), endpointsOf(s, pods)
		err := CheckLimits(s)
		switch {
		case err != nil:
			out[Key(s)] = err.Error()
		case hasDuplicates(s):
			out[Key(s)] = "has a port twice"
		case ports+p > maxPorts:
			out[Key(s)] = fmt.Sprintf("has %d ports at its virtual IPs, but older Services have %d of the %d ports that the network supports", p, ports, maxPorts)
		case endpoints+e > maxEndpoints:
			out[Key(s)] = fmt.Sprintf("has %d endpoints of its ports, but older Services have %d of the %d endpoints that the network supports", e, endpoints, maxEndpoints)
		default:
			ports, endpoints = ports+p, endpoints+e
		}
	}
	return out
}

// byAge returns the Services, older ones first.
func byAge(services []*corev1.Service) []*corev1.Service {
	out := slices.Clone(services)
	slices.SortFunc(out, func(a, b *corev1.Service) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(Key(a), Key(b))
	})
	return out
}

// endpointsOf returns the number of endpoints of all ports of a Service.
func endpointsOf(s *corev1.Service, pods []Pod) (n int) {
	if len(s.Spec.Ports) > maxPortsOfOne {
		return 0 // CheckLimits refuses the Service
	}
	for _, family := range s.Spec.IPFamilies {
		for _, p := range s.Spec.Ports {
			n += len(endpoints(s, p, family == corev1.IPv4Protocol, pods))
		}
	}
	return n
}

// hasDuplicates reports whether a Service has two ports with the same number and protocol. Validation refuses
// such a Service, but its record may have been edited.
func hasDuplicates(s *corev1.Service) bool {
	type port struct {
		protocol corev1.Protocol
		number   int32
	}
	seen := map[port]bool{}
	for _, p := range s.Spec.Ports {
		key := port{protocolOf(p.Protocol), p.Port}
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

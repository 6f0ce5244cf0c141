package service

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Table is everything that the pods' network must forward. podrun-net receives it as JSON
// (embedded/bundle/podrun-net/services.go).
type Table struct {
	Bridge  string         `json:"bridge"`
	Ranges  []netip.Prefix `json:"ranges"`  // of virtual IPs
	Subnets []netip.Prefix `json:"subnets"` // of pods
	Ports   []Port         `json:"ports"`
}

// Port is one port of a Service, at one virtual IP.
type Port struct {
	Service   string           `json:"service"` // namespace/name
	Address   netip.Addr       `json:"address"`
	Protocol  string           `json:"protocol"` // tcp, udp or sctp
	Port      uint16           `json:"port"`
	NodePort  uint16           `json:"nodePort,omitempty"`
	Affinity  uint32           `json:"affinity,omitempty"` // seconds for which a client keeps its endpoint; 0 for none
	Endpoints []netip.AddrPort `json:"endpoints"`
}

// NewTable returns the table for Services (records that Assign returned). The table is empty if no
// Service has a virtual IP. It omits the Services that Omitted returns. Its order depends only on the
// content of the arguments.
func NewTable(bridge string, ranges, subnets []netip.Prefix, services []*corev1.Service, pods []Pod) Table {
	t := Table{Bridge: bridge, Ranges: ranges, Subnets: subnets, Ports: []Port{}}
	omitted := Omitted(services, pods)
	for _, s := range services {
		if _, omit := omitted[Key(s)]; omit || !HasVirtualIP(s) {
			continue
		}
		for _, text := range s.Spec.ClusterIPs {
			ip, err := netip.ParseAddr(text)
			if err != nil || !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
				continue
			}
			for _, p := range s.Spec.Ports {
				one := Port{Service: Key(s), Address: ip, Protocol: strings.ToLower(string(protocolOf(p.Protocol))), Port: uint16(p.Port),
					NodePort: uint16(p.NodePort), Affinity: affinity(s), Endpoints: endpoints(s, p, ip.Is4(), pods)}
				if one.Endpoints == nil {
					one.Endpoints = []netip.AddrPort{}
				}
				t.Ports = append(t.Ports, one)
			}
		}
	}
	slices.SortFunc(t.Ports, func(a, b Port) int { return strings.Compare(a.key(), b.key()) })
	return t
}

func (p Port) key() string {
	return fmt.Sprintf("%s %s %s %05d", p.Service, p.Address, p.Protocol, p.Port)
}

// affinity returns the timeout of ClientIP affinity in seconds; 0 without affinity.
func affinity(s *corev1.Service) uint32 {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return uint32(*c.ClientIP.TimeoutSeconds)
	}
	return uint32(corev1.DefaultClientIPServiceAffinitySeconds)
}

// Has reports whether the table has a port of this address family.
func (t Table) Has(v4 bool) bool {
	return slices.ContainsFunc(t.Ports, func(p Port) bool { return p.Address.Is4() == v4 })
}

// JSON returns the input of podrun-net.
func (t Table) JSON() ([]byte, error) { return json.Marshal(t) }

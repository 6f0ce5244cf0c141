package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// servicesCommand is the argument with which podrun calls this program to set the forwarding of
// Services. It is not a command of CNI.
const servicesCommand = "services"

// serviceTable is the input of servicesCommand: everything that a network forwards for Services
// (package service of podrun).
type serviceTable struct {
	Bridge  string         `json:"bridge"`
	Ranges  []netip.Prefix `json:"ranges"`  // of virtual IPs
	Subnets []netip.Prefix `json:"subnets"` // of sandboxes
	Ports   []servicePort  `json:"ports"`

	Rootless *rootless `json:"rootless"`
}

// servicePort is one port of a Service at one virtual IP.
type servicePort struct {
	Service   string           `json:"service"`
	Address   netip.Addr       `json:"address"`
	Protocol  string           `json:"protocol"`
	Port      uint16           `json:"port"`
	NodePort  uint16           `json:"nodePort"`
	Affinity  uint32           `json:"affinity"` // seconds
	Endpoints []netip.AddrPort `json:"endpoints"`
}

// The limits of the input. podrun omits Services that exceed them (service/limits.go). The kernel receives all rules in one transaction, and the size of the
// socket's buffer limits this transaction.
const (
	maxServiceInput     = 8 << 20
	maxServicePorts     = 4000
	maxServiceEndpoints = 10_000
)

// setServices reads a table and replaces the kernel's rules of Services with those of the table.
// It prints a result, because an older podrun-net, which does not have this command, prints
// nothing on stdout and exits with 0.
func setServices(in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(io.LimitReader(in, maxServiceInput+1))
	if err != nil {
		return err
	}
	t, err := parseServices(data)
	if err != nil {
		return err
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	digest := digestOf(data)
	var nodePorts error
	if t.Rootless != nil {
		if nodePorts = t.Rootless.setNodePorts(t); nodePorts != nil {
			digest = "incomplete" // so that podrun calls the program again
		}
		for i := range t.Ports {
			t.Ports[i].NodePort = 0
		}
	}
	if len(t.Ports) == 0 {
		err = removeServices(t.Bridge)
	} else {
		err = applyServices(t, digest)
	}
	if err = errors.Join(err, nodePorts); err != nil {
		return fmt.Errorf("network %s: Services: %w", t.Bridge, err)
	}
	_, err = fmt.Fprintf(out, `{"services":%d}`+"\n", len(t.Ports))
	return err
}

// digestOf returns the digest of an input. podrun computes the same digest, and compares it with
// the one in the kernel's rules.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

func parseServices(data []byte) (*serviceTable, error) {
	if len(data) > maxServiceInput {
		return nil, fmt.Errorf("the table of Services has more than %d bytes", maxServiceInput)
	}
	var t serviceTable
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("table of Services: %w", err)
	}
	if !bridges.MatchString(t.Bridge) {
		return nil, fmt.Errorf("table of Services: bridge %q is not a valid bridge name", t.Bridge)
	}
	if len(t.Ports) > maxServicePorts {
		return nil, fmt.Errorf("table of Services: %d ports, at most %d are supported", len(t.Ports), maxServicePorts)
	}
	if slices.ContainsFunc(slices.Concat(t.Ranges, t.Subnets), func(p netip.Prefix) bool { return !p.IsValid() || p.Bits() == 0 }) {
		return nil, errors.New("table of Services: a range is invalid")
	}
	endpoints, chains := 0, map[string]bool{}
	for _, p := range t.Ports {
		if err := t.check(p); err != nil {
			return nil, fmt.Errorf("table of Services: %s port %d/%s: %w", p.Service, p.Port, p.Protocol, err)
		}
		if chains[p.chain()] {
			return nil, fmt.Errorf("table of Services: %s port %d/%s occurs twice", p.Service, p.Port, p.Protocol)
		}
		chains[p.chain()] = true
		endpoints += len(p.Endpoints)
	}
	if endpoints > maxServiceEndpoints {
		return nil, fmt.Errorf("table of Services: %d endpoints, at most %d are supported", endpoints, maxServiceEndpoints)
	}
	return &t, nil
}

func (t *serviceTable) check(p servicePort) error {
	switch {
	case p.Port == 0 || p.Protocol == "" || protocols[p.Protocol] == 0:
		return errors.New("invalid port or protocol")
	case !slices.ContainsFunc(t.Ranges, func(r netip.Prefix) bool { return r.Contains(p.Address) }):
		return fmt.Errorf("%s is not in a range of virtual IPs", p.Address)
	}
	for _, e := range p.Endpoints {
		if !e.IsValid() || e.Port() == 0 || e.Addr().BitLen() != p.Address.BitLen() || e.Addr().Zone() != "" {
			return fmt.Errorf("invalid endpoint %s", e)
		}
	}
	return nil
}

// hashName returns a name for an object of nftables: a prefix and a hash.
func hashName(prefix string, parts ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprintln(parts...)))
	return prefix + hex.EncodeToString(sum[:8])
}

// chain returns the name of the chain that selects an endpoint.
func (p servicePort) chain() string {
	return hashName("port-", p.Service, p.Address, p.Protocol, p.Port)
}

// endpointName returns the name of an endpoint's chain and of the set of its clients. It depends on
// the timeout, because the kernel cannot change the timeout of an existing set.
func (p servicePort) endpointName(e netip.AddrPort) string {
	return hashName("endpoint-", p.chain(), e, p.Affinity)
}

// applyServices replaces the rules of Services in one transaction.
func applyServices(t *serviceTable, digest string) error {
	if err := applyServiceHost(t); err != nil {
		return err
	}
	fault("service-host/after")
	// At the hook prerouting, the kernel has not yet sent an ICMP redirect to the client. Such a
	// redirect would count towards the rate limit of ICMP messages. Kernels before 5.9 cannot reject
	// packets at this hook.
	hook := nftables.ChainHookPrerouting
	var err error
	for range tries {
		err = replaceServices(t, digest, hook)
		if errors.Is(err, unix.EOPNOTSUPP) && hook == nftables.ChainHookPrerouting {
			hook = nftables.ChainHookForward
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return explain(err)
	}
	removeStaleServices(t)
	return nil
}

// applyServiceHost prepares the host: it creates the bridge, and adds routes to it. On a host without
// a default route, the host's own processes could otherwise not connect to a virtual IP, because the
// kernel looks up a route before it translates the address. A failure to add a route is not an error,
// because a default route is sufficient.
func applyServiceHost(t *serviceTable) error {
	br, err := applyBridge(&config{Bridge: t.Bridge})
	if err != nil {
		return err
	}
	for _, r := range t.Ranges {
		if r.Addr().Is6() {
			_ = setSysctl("net/ipv6/conf/"+t.Bridge+"/disable_ipv6", "0") // the error of RouteReplace is reported
		}
		fault("service-route/before")
		route := &netlink.Route{LinkIndex: br.Attrs().Index, Dst: ip2net(r), Scope: netlink.SCOPE_LINK, Protocol: routeProtocol}
		if err := netlink.RouteReplace(route); err != nil {
			warn("add a route to the virtual IPs %s: %v: the host's processes require a default route to reach Services", r, err)
		}
	}
	if slices.ContainsFunc(t.Ports, func(p servicePort) bool { return p.NodePort > 0 && p.Address.Is4() }) {
		if err := setSysctl("net/ipv4/conf/"+t.Bridge+"/route_localnet", "1"); err != nil {
			return fmt.Errorf("enable node ports on 127.0.0.1: %w", err)
		}
	}
	return nil
}

// routeProtocol marks the routes of this program (rtm_protocol in rtnetlink(7)). It is a number
// that no routing daemon uses, so that no other program adds routes with it.
const routeProtocol = 112 // also in sandbox/cni

func ip2net(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// replaceServices removes all rules of Services and adds those of the table. It keeps the sets of
// clients that are still in use: otherwise, every change would end the affinity of all clients.
func replaceServices(t *serviceTable, digest string, refuseHook *nftables.ChainHook) error {
	c, err := conn()
	if err != nil {
		return err
	}
	tables, err := c.ListTables()
	if err != nil {
		return fmt.Errorf("list nftables tables: %w", err)
	}
	for _, f := range families {
		table := &nftables.Table{Family: f.id, Name: serviceTableName(t.Bridge)}
		s := f.serviceRules(table, t, digest, refuseHook)
		exists := slices.ContainsFunc(tables, func(x *nftables.Table) bool { return x.Family == f.id && x.Name == table.Name })
		if exists {
			if err := clearServices(c, table, s); err != nil {
				return err
			}
		}
		switch {
		case len(s.base) > 0:
			err = s.add(c, table)
		case exists:
			c.DelTable(table)
		}
		if err != nil {
			return err
		}
	}
	fault("service-rules/before")
	defer fault("service-rules/after")
	return c.Flush()
}

// clearServices adds to the transaction the removal of all rules, and of the chains and sets that
// are not in s.
func clearServices(c *nftables.Conn, table *nftables.Table, s serviceRuleset) error {
	chains, err := readChains(table.Family)
	if err != nil {
		return err
	}
	chains = slices.DeleteFunc(chains, func(ch *nftables.Chain) bool { return ch.Table.Name != table.Name })
	for _, ch := range chains {
		c.FlushChain(ch)
	}
	for _, ch := range chains {
		if !slices.ContainsFunc(s.chains, func(want *nftables.Chain) bool { return want.Name == ch.Name }) {
			c.DelChain(ch)
		}
	}
	sets, err := c.GetSets(table)
	if err != nil {
		return fmt.Errorf("list the nftables sets of %s: %w", table.Name, err)
	}
	for _, set := range sets {
		if !slices.ContainsFunc(s.sets, func(want *nftables.Set) bool { return want.Name == set.Name }) {
			c.DelSet(set)
		}
	}
	return nil
}

// removeAllServices holds the lock and calls removeServices.
func removeAllServices(bridge string) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	return removeServices(bridge)
}

// removeServices removes the rules of a network's Services, and then the routes to its virtual IPs. It is
// idempotent. podrun calls this program again if it finds routes without rules. Rules without routes would
// look complete, because podrun compares only the rules with the ones that it wants.
func removeServices(bridge string) error {
	c, err := conn()
	if err != nil {
		return err
	}
	changes := 0
	for _, f := range families {
		tables, err := c.ListTablesOfFamily(f.id)
		if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) {
			continue // without nftables, there are no rules
		}
		if err != nil {
			return fmt.Errorf("list nftables tables: %w", err)
		}
		for _, t := range tables {
			if t.Name == serviceTableName(bridge) {
				c.DelTable(t)
				changes++
			}
		}
	}
	if changes > 0 {
		fault("service-unrules/before")
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		fault("service-unrules/after")
	}
	return removeServiceRoutes(bridge)
}

// removeServiceRoutes removes the routes that applyServiceHost added.
func removeServiceRoutes(bridge string) error {
	br, err := netlink.LinkByName(bridge)
	if _, missing := err.(netlink.LinkNotFoundError); missing {
		return nil
	}
	if err != nil {
		return err
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlinksafe.RouteListFiltered(family, &netlink.Route{LinkIndex: br.Attrs().Index, Protocol: routeProtocol}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			continue // the kernel does not support the family
		}
		for _, r := range routes {
			fault("service-unroute/before")
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route to %s: %w", r.Dst, err)
			}
		}
	}
	return nil
}

// isServicesCall reports whether podrun calls the program, rather than a container runtime.
func isServicesCall() bool { return len(os.Args) == 2 && os.Args[1] == servicesCommand }

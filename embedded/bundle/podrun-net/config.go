package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

// config is the plugin's input on stdin.
type config struct {
	types.PluginConf

	// Bridge is the bridge to which sandboxes are attached: by this plugin, or, in a chain,
	// by the preceding plugin.
	Bridge string `json:"bridge"`
	// The settings of upstream's plugin bridge that are supported.
	IsGateway        bool `json:"isGateway"`
	IsDefaultGateway bool `json:"isDefaultGateway"`
	ForceAddress     bool `json:"forceAddress"`
	HairpinMode      bool `json:"hairpinMode"`
	MTU              int  `json:"mtu"`
	EnableDAD        bool `json:"enabledad"`
	unsupported

	// Rootless is set for an ordinary user.
	Rootless *rootless `json:"rootless"`

	// OnlyUnused restricts GC to attachments without an interface.
	OnlyUnused bool `json:"podrun.dev/only-unused"`
	Args       struct {
		CNI struct {
			MAC string `json:"mac"`
		} `json:"cni"`
	} `json:"args"`
	RuntimeConfig struct {
		MAC          string            `json:"mac"`
		PortMappings []portMapping     `json:"portMappings"`
		Annotations  map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"runtimeConfig"`

	// stdin is the input.
	stdin []byte
}

// unsupported are settings of upstream's plugin bridge that the plugin refuses, because
// ignoring them would give a pod more access than the administrator wants.
type unsupported struct {
	VLAN                      int   `json:"vlan"`
	VLANTrunk                 []any `json:"vlanTrunk"`
	PromiscMode               bool  `json:"promiscMode"`
	MacSpoofCheck             bool  `json:"macspoofchk"`
	PortIsolation             bool  `json:"portIsolation"`
	DisableContainerInterface bool  `json:"disableContainerInterface"`
}

// first returns the name of a setting that is used, or "".
func (u unsupported) first() string {
	switch {
	case u.VLAN != 0:
		return "vlan"
	case len(u.VLANTrunk) > 0:
		return "vlanTrunk"
	case u.PromiscMode:
		return "promiscMode"
	case u.MacSpoofCheck:
		return "macspoofchk"
	case u.PortIsolation:
		return "portIsolation"
	case u.DisableContainerInterface:
		return "disableContainerInterface"
	}
	return ""
}

// chained reports whether the plugin only creates rules, after upstream's bridge.
func (c *config) chained() bool { return c.IPAM.Type == "" }

// hasRules reports whether the plugin creates rules. Under the name bridge, it creates none: an
// earlier release of podrun that starts this release's archive configures the chain of bridge and
// podrun-net. The archive contains this plugin under both names, and only the call of podrun-net
// creates the rules.
func (c *config) hasRules() bool { return c.Type != "bridge" }

// portMapping is an entry of the capability portMappings (CNI conventions).
type portMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"` // tcp if empty
	// if it is empty or unspecified, all addresses of the host
	HostIP string `json:"hostIP"`
}

// attachment is the attachment of a sandbox to a network. It has the input for the attachment's
// rules.
type attachment struct {
	bridge string
	// comment identifies the rules of the attachment.
	comment string
	// v4 and v6 are the sandbox's addresses, with the prefix lengths of their subnets. An address
	// that the sandbox does not have is invalid.
	v4, v6 netip.Prefix
	ports  []port
}

// port is a host port and its destination.
type port struct {
	// if it is invalid, all addresses of the host
	hostIP          netip.Addr
	host, container uint16
	protocol        byte // an IPPROTO_*
}

// maxComment is the maximum length of a comment in nft and iptables, in bytes.
const maxComment = 128

// bridges matches names that are valid for an interface and for a table, and that nft can
// parse.
var bridges = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)

// protocols are the protocols with ports. SCTP works even if the kernel does not support SCTP
// sockets, because the kernel only forwards the packets.
var protocols = map[string]byte{"": unix.IPPROTO_TCP, "tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}

// comment returns the comment of an attachment.
func comment(sandbox, ifName string) string { return sandbox + "/" + ifName }

// parse parses the configuration, and the result of the plugins before this one.
func parse(stdin []byte) (*config, error) {
	var c config
	if err := json.Unmarshal(stdin, &c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration: "+err.Error(), "")
	}
	if !bridges.MatchString(c.Bridge) {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: bridge %q is not a valid bridge name", c.Name, c.Bridge), "")
	}
	if name := c.unsupported.first(); name != "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: the setting %s is not supported: remove it", c.Name, name), "")
	}
	if !c.chained() && c.IPAM.Type != "host-local" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: ipam type %q is not supported: use host-local", c.Name, c.IPAM.Type), "")
	}
	if c.MTU < 0 || c.MTU > 65535 {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: mtu %d is not between 0 and 65535", c.Name, c.MTU), "")
	}
	if c.Rootless != nil && c.chained() {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: the setting rootless requires ipam", c.Name), "")
	}
	c.IsGateway = c.IsGateway || c.IsDefaultGateway
	c.stdin = stdin
	if c.RawPrevResult == nil {
		return &c, nil
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "prevResult: "+err.Error(), "")
	}
	return &c, nil
}

// attachment validates the runtime's request, and the result of the plugins before this one.
func (c *config) attachment(sandbox, ifName string) (attachment, error) {
	a, err := c.request(sandbox, ifName)
	if err != nil {
		return a, err
	}
	if c.PrevResult == nil {
		return a, types.NewError(types.ErrInvalidNetworkConfig, "network "+c.Name+": no prevResult: set ipam, or list podrun-net after the bridge plugin", "")
	}
	result, err := current.NewResultFromResult(c.PrevResult)
	if err != nil {
		return a, types.NewError(types.ErrDecodingFailure, "prevResult: "+err.Error(), "")
	}
	return a, a.take(result, ifName)
}

// request validates the runtime's request: the attachment without its addresses.
func (c *config) request(sandbox, ifName string) (attachment, error) {
	a := attachment{bridge: c.Bridge, comment: comment(sandbox, ifName)}
	if len(a.comment) > maxComment {
		return a, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("sandbox %s: the ID and the interface name have more than %d characters together", a.comment, maxComment), "")
	}
	for _, m := range c.RuntimeConfig.PortMappings {
		p, err := m.port()
		if err != nil {
			return a, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: %v", c.Name, err), "")
		}
		a.ports = append(a.ports, p)
	}
	return a, nil
}

// take sets the attachment's addresses, the first of each family in a result.
func (a *attachment) take(result *current.Result, ifName string) error {
	for _, ip := range result.IPs {
		if !ofSandbox(result, ip, ifName) {
			continue
		}
		addr, ok := netip.AddrFromSlice(ip.Address.IP)
		ones, bits := ip.Address.Mask.Size()
		addr = addr.Unmap()
		if !ok || bits != addr.BitLen() {
			return types.NewError(types.ErrDecodingFailure, fmt.Sprintf("prevResult: %s is not an address with a subnet", ip.Address.String()), "")
		}
		switch p := netip.PrefixFrom(addr, ones); {
		case addr.Is4() && !a.v4.IsValid():
			a.v4 = p
		case addr.Is6() && !a.v6.IsValid():
			a.v6 = p
		}
	}
	return nil
}

// ofSandbox reports whether an address belongs to the sandbox's interface: a result may
// include addresses of the host's end of the pair.
func ofSandbox(r *current.Result, ip *current.IPConfig, ifName string) bool {
	if ip.Interface == nil || *ip.Interface < 0 || *ip.Interface >= len(r.Interfaces) {
		return true
	}
	i := r.Interfaces[*ip.Interface]
	return i.Name == ifName && i.Sandbox != ""
}

func (m portMapping) port() (port, error) {
	protocol, ok := protocols[strings.ToLower(m.Protocol)]
	switch {
	case !ok:
		return port{}, fmt.Errorf("host port %d: protocol %q must be tcp, udp or sctp", m.HostPort, m.Protocol)
	case m.HostPort < 1 || m.HostPort > 65535:
		return port{}, fmt.Errorf("host port %d is not between 1 and 65535", m.HostPort)
	case m.ContainerPort < 1 || m.ContainerPort > 65535:
		return port{}, fmt.Errorf("host port %d: container port %d is not between 1 and 65535", m.HostPort, m.ContainerPort)
	}
	p := port{host: uint16(m.HostPort), container: uint16(m.ContainerPort), protocol: protocol}
	if m.HostIP == "" {
		return p, nil
	}
	ip, err := netip.ParseAddr(m.HostIP)
	if err != nil || ip.Zone() != "" {
		return port{}, fmt.Errorf("host port %d: hostIP %q is not an IP address", m.HostPort, m.HostIP)
	}
	p.hostIP = ip.Unmap()
	return p, nil
}

package cni

import (
	"encoding/json"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/cniplugin"
)

// ownAttachment is an attachment of a sandbox to a network of podrun-net.
type ownAttachment struct {
	sandbox, ifName string
	netns           string // path of the sandbox's network namespace
	bridge          string
	families        []uint8 // address families of the sandbox (NFPROTO_*)
	stdin           []byte  // input for the plugin's ADD
}

// comment returns the comment of the attachment's rules (embedded/bundle/podrun-net).
func (a ownAttachment) comment() string { return a.sandbox + "/" + a.ifName }

// ownCached contains the fields of libcni's file that podrun needs to repeat an ADD.
type ownCached struct {
	IfName     string `json:"ifName"`
	NetNS      string `json:"netns"`
	Capability struct {
		PortMappings json.RawMessage `json:"portMappings"`
	} `json:"capabilityArgs"`
	Result json.RawMessage `json:"result"`
}

// parseOwn parses a libcni file. The result ok is false if the file belongs to another network, or
// if the network does not use podrun's plugin.
func parseOwn(data []byte, network string) (a ownAttachment, ok bool) {
	var c cached
	var own ownCached
	if json.Unmarshal(data, &c) != nil || json.Unmarshal(data, &own) != nil ||
		c.Network != network || !ids().MatchString(c.ContainerID) || own.IfName == "" || len(own.Result) == 0 {
		return ownAttachment{}, false
	}
	var list struct {
		CNIVersion string                       `json:"cniVersion"`
		Plugins    []map[string]json.RawMessage `json:"plugins"`
	}
	var result struct {
		IPs []struct {
			Address string `json:"address"`
		} `json:"ips"`
	}
	if json.Unmarshal(c.Config, &list) != nil || json.Unmarshal(own.Result, &result) != nil {
		return ownAttachment{}, false
	}
	a = ownAttachment{sandbox: c.ContainerID, ifName: own.IfName, netns: own.NetNS}
	for _, p := range list.Plugins {
		var kind string
		if json.Unmarshal(p["type"], &kind) != nil || kind != cniplugin.Own || json.Unmarshal(p["bridge"], &a.bridge) != nil {
			continue
		}
		input := map[string]any{"cniVersion": list.CNIVersion, "name": network, "type": cniplugin.Own, "bridge": a.bridge, "prevResult": own.Result}
		if len(own.Capability.PortMappings) > 0 {
			input["runtimeConfig"] = map[string]any{"portMappings": own.Capability.PortMappings}
		}
		stdin, err := json.Marshal(input)
		if err != nil {
			return ownAttachment{}, false
		}
		a.stdin = stdin
	}
	for _, ip := range result.IPs {
		family := uint8(unix.NFPROTO_IPV6)
		if p, err := netip.ParsePrefix(ip.Address); err != nil {
			continue
		} else if p.Addr().Unmap().Is4() {
			family = unix.NFPROTO_IPV4
		}
		if !slices.Contains(a.families, family) {
			a.families = append(a.families, family)
		}
	}
	return a, a.stdin != nil
}

// ownRules contains the comments of one network's rules in the kernel.
type ownRules struct {
	attachments map[uint8][]string // by family: comments in the plugin's own table
	forward     map[uint8][]string // by family: comments in iptables' chain FORWARD; no entry if the chain does not exist
}

// lacks reports whether a rule of the attachment or its network is missing.
func (r ownRules) lacks(a ownAttachment) bool {
	return slices.ContainsFunc(a.families, func(family uint8) bool {
		forward, filtered := r.forward[family]
		return !slices.Contains(r.attachments[family], a.comment()) || filtered && !slices.Contains(forward, cniplugin.Own+" "+a.bridge)
	})
}

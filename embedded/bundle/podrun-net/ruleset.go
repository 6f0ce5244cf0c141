package main

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// tablePrefix is the prefix of the names of this plugin's tables. The name of the bridge
// follows it.
const tablePrefix = "podrun-net-"

// The chains. Rules in hostports and postrouting belong to attachments and have their comments.
// Rules in the other chains belong to the network.
const (
	chainHostPorts   = "hostports"
	chainPrerouting  = "prerouting"
	chainOutput      = "output"
	chainPostrouting = "postrouting"
	chainLoopback    = "loopback"
)

// attachmentChains are the chains with rules of attachments.
var attachmentChains = []string{chainHostPorts, chainPostrouting}

// family contains the differences between the address families.
type family struct {
	id         nftables.TableFamily
	bits       int
	source     uint32 // offset of the source address in the network header
	dest       uint32
	length     uint32
	multicast  netip.Prefix
	loopback   netip.Prefix
	forwarding string // sysctl that enables forwarding
}

var families = []family{
	{nftables.TableFamilyIPv4, 32, 12, 16, 4, netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("127.0.0.0/8"), "net/ipv4/ip_forward"},
	{nftables.TableFamilyIPv6, 128, 8, 24, 16, netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("::1/128"), "net/ipv6/conf/all/forwarding"},
}

// ruleset contains the rules of a network and of one attachment, for one address family. The
// plugin's ADD command creates those that do not exist.
type ruleset struct {
	table  *nftables.Table
	chains []*nftables.Chain
	// base contains the network's rules. The chains of these rules contain no other rules.
	base []*nftables.Rule
	// attachment are the rules of one attachment. In hostports they come before those of other
	// attachments, so that a remaining rule of a removed sandbox does not affect the host port of a
	// new one.
	attachment []*nftables.Rule
}

// plan returns the rules of an attachment: one ruleset for each family in which it has an
// address.
func plan(a attachment) []ruleset {
	var out []ruleset
	for _, f := range families {
		if addr := a.address(f); addr.IsValid() {
			out = append(out, f.plan(a, addr))
		}
	}
	return out
}

// address returns the attachment's address in a family. If there is none, the result is
// invalid.
func (a attachment) address(f family) netip.Prefix {
	if f.bits == 32 {
		return a.v4
	}
	return a.v6
}

// portsOf returns the ports that must be forwarded to the address of a family.
func (a attachment) portsOf(f family) []port {
	return slices.DeleteFunc(slices.Clone(a.ports), func(p port) bool {
		return p.hostIP.IsValid() && p.hostIP.BitLen() != f.bits
	})
}

func tableName(bridge string) string { return tablePrefix + bridge }

func (f family) plan(a attachment, addr netip.Prefix) ruleset {
	t := &nftables.Table{Family: f.id, Name: tableName(a.bridge)}
	hostPorts := &nftables.Chain{Table: t, Name: chainHostPorts}
	base := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return &nftables.Chain{Table: t, Name: name, Type: kind, Hooknum: hook, Priority: priority}
	}
	pre := base(chainPrerouting, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	out := base(chainOutput, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	post := base(chainPostrouting, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	// This chain drops packets from the bridge with loopback addresses. It must run before
	// address translation: after it, legitimate replies have loopback addresses, too.
	loop := base(chainLoopback, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	s := ruleset{table: t, chains: []*nftables.Chain{hostPorts, pre, out, post}}
	rule := func(c *nftables.Chain, comment string, exprs ...[]expr.Any) *nftables.Rule {
		r := &nftables.Rule{Table: t, Chain: c, Exprs: slices.Concat(exprs...)}
		if comment != "" {
			r.UserData = userdata.AppendString(nil, userdata.TypeComment, comment)
		}
		return r
	}
	jump := []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chainHostPorts}}
	drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	masquerade := []expr.Any{&expr.Masq{}}

	s.base = append(s.base, rule(pre, "", local(), jump))
	if f.bits == 32 {
		s.chains = append(s.chains, loop)
		s.base = append(s.base, rule(out, "", local(), jump),
			// Host ports at 127.0.0.1 require route_localnet on the bridge. With it, sandboxes could
			// reach the host's own listeners there (CVE-2020-8558).
			rule(loop, "", from(a.bridge), f.match(f.dest, f.loopback, expr.CmpOpEq), drop),
			rule(loop, "", from(a.bridge), f.match(f.source, f.loopback, expr.CmpOpEq), drop))
	} else {
		// The kernel forwards no packets from ::1. Without a rule for ::1, a connection is refused
		// immediately; with one, its packets would be lost.
		s.base = append(s.base, rule(out, "", f.match(f.dest, f.loopback, expr.CmpOpNeq), local(), jump))
	}

	self := netip.PrefixFrom(addr.Addr(), f.bits)
	ports := a.portsOf(f)
	for _, p := range ports {
		var to []expr.Any
		if p.hostIP.IsValid() && !p.hostIP.IsUnspecified() {
			to = f.match(f.dest, netip.PrefixFrom(p.hostIP, f.bits), expr.CmpOpEq)
		}
		s.attachment = append(s.attachment, rule(hostPorts, a.comment, to, p.match(), f.translate(addr.Addr(), p.container)))
	}
	if len(ports) > 0 {
		// Without masquerading, a sandbox in the same subnet would reply directly, and not through
		// the host. However, the host must reverse the translation.
		s.attachment = append(s.attachment, rule(post, a.comment, f.match(f.source, addr.Masked(), expr.CmpOpEq),
			f.match(f.dest, self, expr.CmpOpEq), translated(), masquerade))
		if f.bits == 32 {
			s.attachment = append(s.attachment, rule(post, a.comment, f.match(f.source, f.loopback, expr.CmpOpEq),
				f.match(f.dest, self, expr.CmpOpEq), masquerade))
		}
	}
	s.attachment = append(s.attachment, rule(post, a.comment, f.match(f.source, self, expr.CmpOpEq),
		f.match(f.dest, addr.Masked(), expr.CmpOpNeq), f.match(f.dest, f.multicast, expr.CmpOpNeq), masquerade))
	return s
}

// match matches packets whose address has a prefix.
func (f family) match(offset uint32, p netip.Prefix, op expr.CmpOp) []expr.Any {
	out := []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.length}}
	if p.Bits() < f.bits {
		mask := make([]byte, f.length)
		for i := range p.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		out = append(out, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: f.length, Mask: mask, Xor: make([]byte, f.length)})
	}
	return append(out, &expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

// match matches packets to the protocol and the port.
func (p port) match() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{p.protocol}},
		// TCP, UDP and SCTP have the destination port at the same offset.
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, p.host)},
	}
}

// translate sets the destination address and port of a connection.
func (f family) translate(to netip.Addr, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.id), RegAddrMin: 1, RegProtoMin: 2, Specified: true},
	}
}

// local matches packets whose destination is an address of the host.
func local() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)},
	}
}

// ipsDstNAT is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
const ipsDstNAT = 1 << 5

// translated matches connections whose destination was translated.
func translated() []expr.Any {
	bit := binary.NativeEndian.AppendUint32(nil, ipsDstNAT)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bit, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// from matches packets that come from an interface.
func from(ifName string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, ifName)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name},
	}
}

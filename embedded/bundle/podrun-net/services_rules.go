package main

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// serviceTablePrefix is the prefix of the names of the tables of Services. It must differ from
// tablePrefix: an older podrun-net removes tables with that prefix that have no attachments.
const serviceTablePrefix = "podrun-services-"

func serviceTableName(bridge string) string { return serviceTablePrefix + bridge }

// The chains of Services. In addition, there is one chain for each port and, with affinity, one
// for each endpoint.
const (
	chainServices     = "services"
	chainNodePorts    = "nodeports"
	chainRefuse       = "refuse"
	chainRefuseOutput = "refuse-output"
)

// serviceComment returns the comment of the rule that identifies the input of a table.
func serviceComment(digest string) string { return "podrun-services " + digest }

// serviceRuleset contains the rules of Services for one address family. base is empty if there are
// none.
type serviceRuleset struct {
	chains []*nftables.Chain
	sets   []*nftables.Set
	base   []*nftables.Rule
	ports  []*nftables.Rule
}

// add adds the objects to a transaction.
func (s serviceRuleset) add(c *nftables.Conn, table *nftables.Table) error {
	c.AddTable(table)
	for _, set := range s.sets {
		if err := c.AddSet(set, nil); err != nil {
			return err
		}
	}
	for _, chain := range s.chains {
		c.AddChain(chain)
	}
	for _, r := range slices.Concat(s.base, s.ports) {
		c.AddRule(r)
	}
	return nil
}

// serviceWriter collects the rules of one family.
type serviceWriter struct {
	family
	table      *nftables.Table
	refuseHook *nftables.ChainHook
	out        serviceRuleset
}

func (w *serviceWriter) chain(name string) *nftables.Chain {
	c := &nftables.Chain{Table: w.table, Name: name}
	w.out.chains = append(w.out.chains, c)
	return c
}

func (w *serviceWriter) hooked(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
	c := w.chain(name)
	c.Type, c.Hooknum, c.Priority = kind, hook, priority
	return c
}

func (w *serviceWriter) rule(to *[]*nftables.Rule, c *nftables.Chain, comment string, exprs ...[]expr.Any) {
	r := &nftables.Rule{Table: w.table, Chain: c, Exprs: slices.Concat(exprs...)}
	if comment != "" {
		r.UserData = userdata.AppendString(nil, userdata.TypeComment, comment)
	}
	*to = append(*to, r)
}

// serviceRules returns the rules of a family. The table must be valid (parseServices).
func (f family) serviceRules(table *nftables.Table, t *serviceTable, digest string, refuseHook *nftables.ChainHook) serviceRuleset {
	ofFamily := func(p netip.Prefix) bool { return p.Addr().BitLen() == f.bits }
	w := &serviceWriter{family: f, table: table, refuseHook: refuseHook}
	at := slices.IndexFunc(t.Ranges, ofFamily)
	var ports []servicePort
	for _, p := range t.Ports {
		if p.Address.BitLen() == f.bits {
			ports = append(ports, p)
		}
	}
	if at < 0 || len(ports) == 0 {
		return w.out
	}
	services, nodePorts := w.chain(chainServices), w.chain(chainNodePorts)
	w.base(t, t.Ranges[at], digest)
	for _, subnet := range t.Subnets {
		if ofFamily(subnet) {
			w.masquerade(subnet)
		}
	}
	for _, p := range ports {
		if len(p.Endpoints) == 0 {
			continue // the filters reject the packets
		}
		chain := w.chain(p.chain())
		goTo := []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain.Name}}
		w.rule(&w.out.ports, services, "", f.match(f.dest, netip.PrefixFrom(p.Address, f.bits), expr.CmpOpEq), p.match(p.Port), goTo)
		if p.NodePort > 0 {
			w.rule(&w.out.ports, nodePorts, "", p.match(p.NodePort), goTo)
		}
		w.endpoints(chain, p)
	}
	return w.out
}

func (p servicePort) match(number uint16) []expr.Any {
	return port{host: number, protocol: protocols[p.Protocol]}.match()
}

// base adds the chains with hooks. Every table must contain the rule with the comment.
func (w *serviceWriter) base(t *serviceTable, r netip.Prefix, digest string) {
	virtual := w.match(w.dest, r, expr.CmpOpEq)
	jump := func(chain string) []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}} }
	pre := w.hooked(chainPrerouting, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	out := w.hooked(chainOutput, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	w.rule(&w.out.base, pre, serviceComment(digest), virtual, jump(chainServices))
	w.rule(&w.out.base, out, "", virtual, jump(chainServices))
	w.rule(&w.out.base, pre, "", local(), jump(chainNodePorts))
	if w.bits == 32 {
		w.rule(&w.out.base, out, "", local(), jump(chainNodePorts))
	} else {
		// The kernel forwards no packets from ::1 (see family.plan).
		w.rule(&w.out.base, out, "", w.match(w.dest, w.loopback, expr.CmpOpNeq), local(), jump(chainNodePorts))
	}
	for _, c := range []*nftables.Chain{
		w.hooked(chainRefuse, nftables.ChainTypeFilter, w.refuseHook, nftables.ChainPriorityFilter),
		w.hooked(chainRefuseOutput, nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter),
	} {
		w.refuse(c, virtual)
	}
	if w.bits == 32 {
		// Node ports at 127.0.0.1 require route_localnet (see family.plan).
		loop := w.hooked(chainLoopback, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
		drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
		w.rule(&w.out.base, loop, "", from(t.Bridge), w.match(w.dest, w.loopback, expr.CmpOpEq), drop)
		w.rule(&w.out.base, loop, "", from(t.Bridge), w.match(w.source, w.loopback, expr.CmpOpEq), drop)
	}
	w.hooked(chainPostrouting, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
}

// refuse adds rules that reject packets to a virtual IP that no rule has translated, so that the
// client fails at once. The kernel limits the rate of ICMP messages, but not that of TCP resets.
func (w *serviceWriter) refuse(c *nftables.Chain, virtual []expr.Any) {
	tcp := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
	}
	unreachable := &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3} // port unreachable
	if w.bits == 128 {
		unreachable.Code = 4
	}
	w.rule(&w.out.base, c, "", virtual, tcp, []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	w.rule(&w.out.base, c, "", virtual, []expr.Any{unreachable})
}

// masquerade adds the rules that masquerade connections between sandboxes of one subnet. Without
// them, replies would bypass the address translation, because a sandbox sends them directly over
// the bridge.
func (w *serviceWriter) masquerade(subnet netip.Prefix) {
	post := &nftables.Chain{Table: w.table, Name: chainPostrouting}
	masquerade := []expr.Any{&expr.Masq{}}
	w.rule(&w.out.base, post, "", w.match(w.source, subnet, expr.CmpOpEq), w.match(w.dest, subnet, expr.CmpOpEq), translated(), masquerade)
	if w.bits == 32 {
		w.rule(&w.out.base, post, "", w.match(w.source, w.loopback, expr.CmpOpEq), w.match(w.dest, subnet, expr.CmpOpEq), masquerade)
	}
}

// endpoints adds the selection of an endpoint: with affinity, the endpoint that the client used
// before; otherwise a random one.
func (w *serviceWriter) endpoints(chain *nftables.Chain, p servicePort) {
	to := func(e netip.AddrPort) []expr.Any { return w.translate(e.Addr(), e.Port()) }
	if p.Affinity > 0 {
		to = func(e netip.AddrPort) []expr.Any {
			return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: p.endpointName(e)}}
		}
		for _, e := range p.Endpoints {
			set := w.clients(p, e)
			w.rule(&w.out.ports, chain, "", w.loadSource(), []expr.Any{&expr.Lookup{SourceRegister: 1, SetID: set.ID, SetName: set.Name}}, to(e))
			own := w.chain(set.Name)
			// If the set is full, this rule ends without an effect, and the next rule still translates
			// the address.
			w.rule(&w.out.ports, own, "", w.loadSource(), []expr.Any{
				&expr.Dynset{SrcRegKey: 1, SetID: set.ID, SetName: set.Name, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Duration(p.Affinity) * time.Second},
			})
			w.rule(&w.out.ports, own, "", w.translate(e.Addr(), e.Port()))
		}
	}
	for i, e := range p.Endpoints {
		var random []expr.Any
		if left := len(p.Endpoints) - i; left > 1 {
			random = []expr.Any{
				&expr.Numgen{Register: 1, Modulus: uint32(left), Type: unix.NFT_NG_RANDOM},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, 0)},
			}
		}
		w.rule(&w.out.ports, chain, "", random, to(e))
	}
}

// maxClients is the maximum number of clients in the set of an endpoint: pods and hosts may use
// any number of source addresses. Clients beyond the limit have no affinity.
const maxClients = 65_536

// clients adds the set of the clients of an endpoint.
func (w *serviceWriter) clients(p servicePort, e netip.AddrPort) *nftables.Set {
	key := nftables.TypeIPAddr
	if w.bits == 128 {
		key = nftables.TypeIP6Addr
	}
	set := &nftables.Set{Table: w.table, Name: p.endpointName(e), KeyType: key, Dynamic: true, HasTimeout: true, Size: maxClients,
		Timeout: time.Duration(p.Affinity) * time.Second, ID: uint32(len(w.out.sets) + 1)}
	w.out.sets = append(w.out.sets, set)
	return set
}

// loadSource loads the source address.
func (f family) loadSource() []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.source, Len: f.length}}
}

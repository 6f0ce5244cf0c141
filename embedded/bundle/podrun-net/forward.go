package main

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// Docker and ufw set the policy of iptables' chain FORWARD to DROP. An accept rule in the plugin's
// own table does not help against that policy, because every table must accept a packet. Therefore,
// if iptables stores its rules in nftables (iptables-nft), the plugin accepts the traffic of the
// network's bridge in that chain itself, as upstream's plugin firewall does.
const (
	filterTable  = "filter"
	forwardChain = "FORWARD"
)

// forwardComment identifies the rules of a network in that chain.
func forwardComment(bridge string) string { return "podrun-net " + bridge }

// forwardRules returns the network's rules for that chain. They are in the form that iptables
// writes and can parse.
func forwardRules(id nftables.TableFamily, bridge string) []*nftables.Rule {
	t := &nftables.Table{Family: id, Name: filterTable}
	var out []*nftables.Rule
	for _, key := range []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
		out = append(out, &nftables.Rule{
			Table: t, Chain: &nftables.Chain{Table: t, Name: forwardChain},
			Exprs: []expr.Any{
				&expr.Meta{Key: key, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: append([]byte(bridge), 0)},
				&expr.Counter{},
				&expr.Verdict{Kind: expr.VerdictAccept},
			},
			UserData: userdata.AppendString(nil, userdata.TypeComment, forwardComment(bridge)),
		})
	}
	return out
}

// takesForward reports whether a chain is the chain FORWARD of iptables.
func takesForward(c *nftables.Chain) bool {
	return c.Table.Name == filterTable && c.Name == forwardChain && isForward(c)
}

// dropsForwarded reports whether a chain of another program drops forwarded packets by default.
// The plugin does not change such a chain, but prints a warning.
func dropsForwarded(c *nftables.Chain) bool {
	return isForward(c) && !takesForward(c) && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
}

func isForward(c *nftables.Chain) bool {
	return c.Type == nftables.ChainTypeFilter && c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward
}

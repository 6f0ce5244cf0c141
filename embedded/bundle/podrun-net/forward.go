package main

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

// Docker and ufw set the policy of iptables' chain FORWARD to drop. An accept in a table
// of one's own does not help: each table's verdict is asked for. So the network's
// bridge is accepted in that chain itself, as upstream's plugin firewall does, where
// iptables keeps its rules in nftables (iptables-nft).
const (
	filterTable  = "filter"
	forwardChain = "FORWARD"
)

// forwardComment names a network in its rules of that chain.
func forwardComment(bridge string) string { return "podrun-net " + bridge }

// forwardRules are the network's rules for that chain, in the form in which iptables
// writes and understands them.
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

// takesForward reports whether a chain is that one.
func takesForward(c *nftables.Chain) bool {
	return c.Table.Name == filterTable && c.Name == forwardChain && isForward(c)
}

// dropsForwarded reports whether a chain that is someone else's own drops what it does
// not know: the plugin does not change it, and prints a warning.
func dropsForwarded(c *nftables.Chain) bool {
	return isForward(c) && !takesForward(c) && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
}

func isForward(c *nftables.Chain) bool {
	return c.Type == nftables.ChainTypeFilter && c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward
}

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// dropForward creates what Docker creates with iptables-nft: a chain FORWARD that drops
// packets.
func (h *testHost) dropForward(table, chain string) {
	h.t.Helper()
	h.do(func() {
		c, err := conn()
		if err != nil {
			h.t.Error(err)
			return
		}
		drop := nftables.ChainPolicyDrop
		for _, f := range families {
			t := c.AddTable(&nftables.Table{Family: f.id, Name: table})
			ch := c.AddChain(&nftables.Chain{Table: t, Name: chain, Type: nftables.ChainTypeFilter,
				Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop})
			c.AddRule(&nftables.Rule{Table: t, Chain: ch, Exprs: []expr.Any{&expr.Counter{}}})
		}
		if err := c.Flush(); err != nil {
			h.t.Error(err)
		}
	})
}

func TestForwardPolicyDrop(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	h.dropForward("filter", "FORWARD")
	p := h.addPod("br0", 77)
	p.serve("tcp", ":80")
	h.outside.serve("tcp", ":90")
	port := portMapping{8080, 80, "tcp", ""}
	p.add(port)
	p.add(port)
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	h.outside.wants("tcp", "["+hostIP6+"]:8080", "hi "+outsideIP6)
	p.wants("tcp", outsideIP4+":90", "hi "+hostIP4)
	h.do(func() {
		rules, err := readRules(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "filter"}, []string{"FORWARD"})
		if err != nil || len(rules) != 3 || rules[2].comment != "" {
			t.Errorf("FORWARD has %+v, %v: want the network's two rules before the existing one", rules, err)
		}
	})
	h.must("CHECK", p, p.config(port))
	p.del()
	h.leftNothing()
}

// iptables must be able to parse the rules. If it did not understand a rule, neither iptables
// nor Docker would work.
func TestIptablesReadsForward(t *testing.T) {
	t.Parallel()
	iptables, err := exec.LookPath("iptables-nft")
	if err != nil {
		t.Skip("no iptables-nft on this machine")
	}
	h := newHost(t)
	h.addBridge("br0", 77)
	run := func(args string) (out string) {
		h.do(func() {
			text, err := exec.Command(iptables, strings.Fields(args)...).CombinedOutput()
			if err != nil {
				t.Errorf("iptables-nft %s: %v: %s", args, err, text)
			}
			out = string(text)
		})
		return out
	}
	run("-P FORWARD DROP")
	run("-A FORWARD -m conntrack --ctstate ESTABLISHED -m comment --comment mine -j ACCEPT")
	p := h.addPod("br0", 77)
	p.serve("tcp", ":80")
	p.add(portMapping{8080, 80, "tcp", ""})
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	saved := run("-S FORWARD")
	want := `-P FORWARD DROP
-A FORWARD -o br0 -m comment --comment "podrun-net br0" -j ACCEPT
-A FORWARD -i br0 -m comment --comment "podrun-net br0" -j ACCEPT
-A FORWARD -m conntrack --ctstate ESTABLISHED -m comment --comment mine -j ACCEPT
`
	if saved != want {
		t.Errorf("iptables-nft -S FORWARD:\n%swant:\n%s", saved, want)
	}
	// iptables changes the chain that contains these rules.
	run("-I FORWARD -i lo -j ACCEPT")
	p.del()
	h.leftNothing()
	if saved := run("-S FORWARD"); !strings.Contains(saved, "--comment mine") || strings.Contains(saved, "podrun") {
		t.Errorf("iptables-nft -S FORWARD after DEL:\n%s", saved)
	}
}

// The plugin must print a warning about settings that it cannot or must not change.
func TestSaysWhatDrops(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	h.dropForward("mine", "fwd")
	p := h.addPod("br0", 77)
	if stderr := h.must("ADD", p, p.config()); !strings.Contains(stderr, "chain mine fwd drops forwarded packets") {
		t.Errorf("stderr: %q", stderr)
	}
	legacy, err := exec.LookPath("iptables-legacy")
	if err != nil {
		t.Skip("no iptables-legacy on this machine")
	}
	h = newHost(t)
	h.addBridge("br0", 77)
	p = h.addPod("br0", 77)
	for _, policy := range []string{"ACCEPT", "DROP"} {
		h.do(func() {
			if out, err := exec.Command(legacy, "-P", "FORWARD", policy).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		stderr := h.must("ADD", p, p.config())
		if says := strings.Contains(stderr, "iptables-legacy -I FORWARD -i br0 -j ACCEPT"); says != (policy == "DROP") {
			t.Errorf("policy %s: stderr: %q", policy, stderr)
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// tries is the maximum number of attempts to change the kernel's rules. An attempt fails if
// another program removes an object on which the rules depend.
const tries = 3

// applyAdd creates the rules of an attachment, and those rules of its network that are missing.
// It is idempotent.
func applyAdd(a attachment) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := applyForwarding(a); err != nil {
		return err
	}
	sets := plan(a)
	for range tries {
		if err = applyRules(a, sets); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return explain(err)
	}
	warnDropped(a.bridge)
	removeStale(a)
	return nil
}

// applyForwarding sets the host's sysctls for the families of an attachment.
func applyForwarding(a attachment) error {
	for _, f := range families {
		if !a.address(f).IsValid() {
			continue
		}
		if err := applySysctls(a, f.id); err != nil {
			return err
		}
	}
	return nil
}

// applyRules creates all rules of an attachment in one transaction.
func applyRules(a attachment, sets []ruleset) error {
	c, err := conn()
	if err != nil {
		return err
	}
	for _, s := range sets {
		old, err := readRules(s.table, attachmentChains)
		if err != nil {
			return err
		}
		c.AddTable(s.table)
		for _, chain := range s.chains {
			c.AddChain(chain)
			if chain.Hooknum != nil && chain.Name != chainPostrouting {
				c.FlushChain(chain)
			}
		}
		for _, r := range old {
			if r.comment == a.comment {
				if err := c.DelRule(r.rule(s.table)); err != nil {
					return err
				}
			}
		}
		for _, r := range s.base {
			c.AddRule(r)
		}
		for _, r := range s.attachment {
			if r.Chain.Name == chainHostPorts {
				c.InsertRule(r)
			} else {
				c.AddRule(r)
			}
		}
		if err := applyForward(c, s.table.Family, a.bridge); err != nil {
			return err
		}
	}
	return c.Flush()
}

// probeBridge is the bridge in the names of the tables that probeRules creates.
const probeBridge = "podrun-probe"

// probeRules returns an error if the kernel does not support the rules of a pod with an
// address in each of the network's ranges. It creates and deletes the rules in one
// transaction, which other programs do not see.
func probeRules(pool addresses) error {
	a := attachment{bridge: probeBridge, ports: []port{{host: 1, container: 1, protocol: unix.IPPROTO_TCP}}}
	for _, set := range pool.Ranges {
		addr, _ := netip.AddrFromSlice(set[0].RangeStart)
		ones, _ := set[0].Subnet.Mask.Size()
		if addr = addr.Unmap(); addr.Is4() {
			a.v4 = netip.PrefixFrom(addr, ones)
		} else {
			a.v6 = netip.PrefixFrom(addr, ones)
		}
	}
	nft, err := conn()
	if err != nil {
		return err
	}
	for _, s := range plan(a) {
		nft.AddTable(s.table)
		for _, chain := range s.chains {
			nft.AddChain(chain)
		}
		for _, r := range slices.Concat(s.base, s.attachment) {
			nft.AddRule(r)
		}
		nft.DelTable(s.table)
	}
	return nft.Flush()
}

// applyForward adds the network's missing rules to the chain FORWARD, if nftables has it.
// It inserts them at the beginning, because later rules may drop the packets.
func applyForward(c *nftables.Conn, id nftables.TableFamily, bridge string) error {
	chains, err := readChains(id)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if !takesForward(chain) {
			continue
		}
		rules, err := readRules(chain.Table, []string{chain.Name})
		if err != nil {
			return err
		}
		for _, r := range rules {
			if r.comment == forwardComment(bridge) {
				if err := c.DelRule(r.rule(chain.Table)); err != nil {
					return err
				}
			}
		}
		for _, r := range forwardRules(id, bridge) {
			c.InsertRule(r)
		}
	}
	return nil
}

// applySysctls enables forwarding on the host. It also lets the host's processes access host
// ports at 127.0.0.1.
func applySysctls(a attachment, id nftables.TableFamily) error {
	for _, f := range families {
		if f.id != id {
			continue
		}
		if f.bits == 128 {
			if err := keepRouters("/proc/sys/net/ipv6/conf"); err != nil {
				return fmt.Errorf("keep the host's IPv6 routes: %w", err)
			}
		}
		if err := setSysctl(f.forwarding, "1"); err != nil {
			return fmt.Errorf("enable packet forwarding: %w", err)
		}
		if f.bits == 32 && len(a.portsOf(f)) > 0 {
			if err := setSysctl("net/ipv4/conf/"+a.bridge+"/route_localnet", "1"); err != nil {
				return fmt.Errorf("enable host ports on 127.0.0.1: %w", err)
			}
		}
	}
	return nil
}

// keepRouters makes interfaces that accept router advertisements continue to accept them when
// forwarding is enabled. Otherwise the kernel would remove the routes that it learned from these,
// including the host's default route (addrconf_fixup_forwarding). conf is the directory of the
// interfaces' sysctls.
func keepRouters(conf string) error {
	entries, err := os.ReadDir(conf)
	if err != nil {
		return err
	}
	read := func(name, file string) string {
		data, _ := os.ReadFile(filepath.Join(conf, name, file)) // empty: the interface was removed
		return strings.TrimSpace(string(data))
	}
	if read("all", "forwarding") == "1" {
		return nil
	}
	for _, e := range entries {
		// The value of default would also apply to later interfaces, such as bridges.
		if e.Name() == "all" || e.Name() == "default" || read(e.Name(), "accept_ra") != "1" || read(e.Name(), "forwarding") != "0" {
			continue
		}
		if err := os.WriteFile(filepath.Join(conf, e.Name(), "accept_ra"), []byte("2"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// explain explains which feature the kernel lacks if it rejects the rules.
func explain(err error) error {
	for _, e := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EINVAL} {
		if errors.Is(err, e) {
			return fmt.Errorf("nftables: %w: the kernel may lack one of nf_tables, nft_chain_nat, nft_nat, nft_masq, nft_ct, nft_fib_ipv4 and nft_fib_ipv6 (for Services also nft_numgen, nft_reject_ipv4 and nft_reject_ipv6): load these modules", err)
		}
	}
	return fmt.Errorf("nftables: %w", err)
}

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// readCheckLinks returns an error if the interfaces, the addresses or the routes of the
// previous result do not exist.
func readCheckLinks(c *config, args *skel.CmdArgs) error {
	r, err := current.NewResultFromResult(c.PrevResult)
	if err != nil {
		return err
	}
	pool, err := c.addresses("")
	if err != nil {
		return err
	}
	s, err := pool.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	if !s.FindByID(args.ContainerID, args.IfName) {
		return errors.New("no address is reserved for the sandbox: recreate it")
	}
	host, err := checkPort(c, r, args)
	if err != nil {
		return err
	}
	sandbox, err := ns.GetNS(args.Netns)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer sandbox.Close()
	return sandbox.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName(args.IfName)
		if err != nil {
			return fmt.Errorf("the interface %s of the sandbox: %w", args.IfName, err)
		}
		if link.Type() != "veth" || link.Attrs().ParentIndex != host.Attrs().Index {
			return fmt.Errorf("the interface %s of the sandbox is not the other end of %s", args.IfName, host.Attrs().Name)
		}
		if err := checkMAC(r, args.IfName, args.Netns, link); err != nil {
			return err
		}
		return errors.Join(ip.ValidateExpectedInterfaceIPs(args.IfName, r.IPs), ip.ValidateExpectedRoute(r.Routes))
	})
}

// checkPort checks the bridge and the interface in the host, and returns the interface.
func checkPort(c *config, r *current.Result, args *skel.CmdArgs) (netlink.Link, error) {
	br, err := readBridge(c.Bridge)
	if err != nil {
		return nil, err
	}
	if err := checkMAC(r, c.Bridge, "", br); err != nil {
		return nil, err
	}
	for _, i := range r.Interfaces {
		if i.Sandbox != "" || i.Name == c.Bridge {
			continue
		}
		host, err := netlink.LinkByName(i.Name)
		if err != nil {
			return nil, fmt.Errorf("the interface %s: %w", i.Name, err)
		}
		if host.Attrs().MasterIndex != br.Attrs().Index {
			return nil, fmt.Errorf("the interface %s is not attached to the bridge %s", i.Name, c.Bridge)
		}
		return host, checkMAC(r, i.Name, "", host)
	}
	return nil, errors.New("prevResult contains no interface of the host")
}

// checkMAC compares the MAC address of a link with that in the result, which must have the
// interface.
func checkMAC(r *current.Result, name, sandbox string, link netlink.Link) error {
	for _, i := range r.Interfaces {
		if i.Name != name || i.Sandbox != sandbox {
			continue
		}
		if have := link.Attrs().HardwareAddr.String(); i.Mac != "" && i.Mac != have {
			return fmt.Errorf("the interface %s has the MAC address %s instead of %s", name, have, i.Mac)
		}
		return nil
	}
	return fmt.Errorf("prevResult does not contain the interface %s", name)
}

// readCheck returns an error if a part of an attachment is missing.
func readCheck(a attachment) error {
	var errs []error
	for _, s := range plan(a) {
		errs = append(errs, checkRules(s, a.comment), checkForward(s.table.Family, a.bridge))
	}
	return errors.Join(errs...)
}

func checkRules(s ruleset, comment string) error {
	var names []string
	for _, c := range s.chains {
		names = append(names, c.Name)
	}
	there, err := readRules(s.table, names)
	if err != nil {
		return err
	}
	for _, c := range s.chains {
		wanted := count(s.attachment, func(r *nftables.Rule) bool { return r.Chain.Name == c.Name })
		found := count(there, func(r rule) bool { return r.chain == c.Name && r.comment == comment })
		if !slices.Contains(attachmentChains, c.Name) {
			wanted = count(s.base, func(r *nftables.Rule) bool { return r.Chain.Name == c.Name })
			found = count(there, func(r rule) bool { return r.chain == c.Name })
		}
		if found != wanted {
			return fmt.Errorf("attachment %s: the nftables chain %s %s has %d rules for this attachment instead of %d, because another program changed them: recreate the sandbox",
				comment, s.table.Name, c.Name, found, wanted)
		}
	}
	return nil
}

// checkForward returns an error if the chain FORWARD lacks the network's rules. This happens if
// another program created or flushed the chain after the last ADD.
func checkForward(id nftables.TableFamily, bridge string) error {
	chains, err := readChains(id)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(chains, takesForward) {
		return nil
	}
	rules, err := readRules(&nftables.Table{Family: id, Name: filterTable}, []string{forwardChain})
	if err != nil {
		return err
	}
	wanted := len(forwardRules(id, bridge))
	if found := count(rules, func(r rule) bool { return r.comment == forwardComment(bridge) }); found != wanted {
		return fmt.Errorf("bridge %s: the FORWARD chain of iptables has %d rules for this bridge instead of %d, because another program changed them: recreate a sandbox", bridge, found, wanted)
	}
	return nil
}

func count[T any](of []T, is func(T) bool) int {
	n := 0
	for _, v := range of {
		if is(v) {
			n++
		}
	}
	return n
}

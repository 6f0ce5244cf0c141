package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
)

// collect removes the attachments that are not valid. With only-unused, it keeps those
// whose pair of interfaces exists: ADD creates the pair first and DEL removes it first, so no call in progress needs
// a reservation or a rule without a pair.
//
// The plugin looks for a pair after it has read the reservation or the rule: a pair that does
// not exist then will not be created by an ADD in progress.
func collect(c *config) error {
	valid := map[string]bool{}
	names := map[string]bool{}
	for _, a := range c.ValidAttachments {
		id := comment(a.ContainerID, a.IfName)
		valid[id], names[vethName(id)] = true, true
	}
	keep := func(id string) bool { return valid[id] }
	var errs []error
	if c.OnlyUnused {
		keep = func(id string) bool { return valid[id] || hasVeth(id) }
	} else if !c.chained() {
		errs = append(errs, removeVeths(c.Bridge, names))
	}
	errs = append(errs, removeRulesOf(c.Bridge, func(comment string) bool { return !keep(comment) }))
	removed := len(c.ValidAttachments) == 0 && !c.OnlyUnused
	if c.Rootless != nil {
		errs = append(errs, c.Rootless.collectPorts(func(owner string) bool {
			if strings.HasPrefix(owner, servicesOwner(c.Bridge)) {
				return !removed
			}
			return keep(owner)
		}))
	}
	if removed {
		errs = append(errs, removeAllServices(c.Bridge)) // the network itself is removed
	}
	if c.chained() {
		return errors.Join(errs...)
	}
	pool, err := c.addresses("")
	if err == nil {
		err = pool.release(func(l lease) bool { return !keep(l.holder) })
	}
	return errors.Join(append(errs, err)...)
}

// hasVeth reports whether an attachment's pair exists. An unknown state counts as existing.
func hasVeth(comment string) bool {
	_, err := netlink.LinkByName(vethName(comment))
	_, missing := err.(netlink.LinkNotFoundError)
	return !missing
}

// removeVeths removes the pairs of a network, except those with the given names.
func removeVeths(bridge string, keep map[string]bool) error {
	links, err := netlinksafe.LinkList()
	if err != nil {
		return fmt.Errorf("list the interfaces: %w", err)
	}
	var errs []error
	for _, l := range links {
		name := l.Attrs().Name
		if l.Attrs().Group == vethGroup(bridge) && l.Type() == "veth" && isVethName(name) && !keep[name] {
			errs = append(errs, deleteLink(l))
		}
	}
	return errors.Join(errs...)
}

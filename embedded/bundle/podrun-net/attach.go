package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// applyAttachment attaches a sandbox to the network (README.md lists the steps). If it fails, it
// removes everything that it has created.
func applyAttachment(c *config, args *skel.CmdArgs) (*current.Result, error) {
	a, err := c.request(args.ContainerID, args.IfName)
	if err != nil {
		return nil, err
	}
	mac, others, err := c.mac(args.Args)
	if err != nil {
		return nil, err
	}
	pool, err := c.addresses(others)
	if err != nil {
		return nil, err
	}
	sandbox, err := ns.GetNS(args.Netns)
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	defer sandbox.Close()
	if err := checkFree(sandbox, args.IfName); err != nil {
		return nil, err
	}
	r, err := createAttachment(c, pool, a, sandbox, mac, args)
	if err != nil {
		return nil, errors.Join(err, removeAttachment(c, pool, args))
	}
	return r, nil
}

// checkFree returns an error if the sandbox has the interface. Otherwise a second ADD would replace the existing
// attachment, or its undo would remove it.
func checkFree(sandbox ns.NetNS, ifName string) error {
	return sandbox.Do(func(ns.NetNS) error {
		_, err := netlink.LinkByName(ifName)
		if _, missing := err.(netlink.LinkNotFoundError); missing {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the interface %s of the sandbox: %w", ifName, err)
		}
		return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("the sandbox already has an interface %s, from an earlier ADD that succeeded or was interrupted: run DEL before another ADD", ifName), "")
	})
}

// createAttachment executes the steps of ADD. The pair exists from before the address is
// reserved until after the rules exist: GC relies on this order.
func createAttachment(c *config, pool addresses, a attachment, sandbox ns.NetNS, requested net.HardwareAddr, args *skel.CmdArgs) (*current.Result, error) {
	name := vethName(a.comment)
	if old, err := netlink.LinkByName(name); err == nil {
		if err := deleteLink(old); err != nil { // its other end is in a namespace that the runtime replaced
			return nil, err
		}
	}
	br, err := applyBridge(c)
	if err != nil {
		return nil, err
	}
	awaitPort, end, err := watchPort()
	if err != nil {
		return nil, err
	}
	defer end()
	host, err := applyVeth(c, br, sandbox, requested, name, args.IfName)
	if err != nil {
		return nil, err
	}
	r := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: pool.Routes, DNS: c.DNS}
	if r.IPs, err = pool.reserve(args.ContainerID, args.IfName); err != nil {
		return nil, err
	}
	complete(c, r)
	if err := applyGateways(c, br, r.IPs); err != nil {
		return nil, err
	}
	fault("gateway/after")
	mac, err := applySandbox(c, sandbox, args.IfName, r)
	if err != nil {
		return nil, err
	}
	fault("sandbox/after")
	r.Interfaces = []*current.Interface{{Name: c.Bridge}, {Name: name}, {Name: args.IfName, Mac: mac, Sandbox: args.Netns}}
	if err := a.take(r, args.IfName); err != nil {
		return nil, err
	}
	ports := a
	if c.Rootless != nil {
		a.ports = nil // podrun-rootless connects to the pod, so no rule translates an address
	}
	if c.hasRules() {
		err = applyAdd(a)
	} else {
		err = applyForwarding(a)
	}
	if err != nil {
		return nil, err
	}
	fault("rules/after")
	if c.Rootless != nil {
		if err := c.Rootless.openPorts(ports); err != nil {
			return nil, err
		}
	}
	if host, err = awaitPort(host); err != nil {
		return nil, err
	}
	if br, err = readBridge(c.Bridge); err != nil {
		return nil, err
	}
	r.Interfaces[0].Mac, r.Interfaces[1].Mac = br.Attrs().HardwareAddr.String(), host.Attrs().HardwareAddr.String()
	return r, nil
}

// removeAttachment removes everything that belongs to an attachment. It removes the interfaces
// first, so that no process uses the address, and the address last, so that it becomes free only
// when no rule contains it. It is idempotent.
func removeAttachment(c *config, pool addresses, args *skel.CmdArgs) error {
	gone := comment(args.ContainerID, args.IfName)
	if err := removeVeth(gone, args.Netns, args.IfName); err != nil {
		return err
	}
	fault("unrule/before")
	if err := removeRulesOf("", func(comment string) bool { return comment == gone }); err != nil {
		return err
	}
	fault("unrule/after")
	if c.Rootless != nil {
		if err := c.Rootless.closePorts(gone); err != nil {
			return err
		}
	}
	return pool.release(func(l lease) bool { return l.of(args.ContainerID, args.IfName) })
}

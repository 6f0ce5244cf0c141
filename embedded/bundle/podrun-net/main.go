// podrun-net is a CNI plugin that implements a whole pod network: bridge, interfaces, addresses,
// host ports and masquerading. It uses netlink: a host requires neither iptables nor nft, and the
// plugin executes no programs. Without the setting ipam, it is chained after upstream's bridge and
// creates only rules. With the argument services, it sets the forwarding of Services. With the name
// podrun-oci-create, it creates containers in a user namespace (package oci).
//
// README.md describes the state on the host, the order of changes, and the leftovers of a killed call.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/podrun/podrun/bundle/podrun-net/oci"
)

func main() {
	if filepath.Base(os.Args[0]) == oci.Name {
		fmt.Fprintf(os.Stderr, "%s: %v\n", oci.Name, oci.Run(os.Args))
		os.Exit(1)
	}
	if err := enterNode(); err != nil {
		fail(err)
	}
	if isServicesCall() {
		if err := setServices(os.Stdin, os.Stdout); err != nil {
			warn("%v", err)
			os.Exit(1)
		}
		return
	}
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: cmdAdd, Del: cmdDel, Check: cmdCheck, GC: cmdGC, Status: cmdStatus,
	}, version.All, "CNI plugin podrun-net: bridge, addresses, host ports and masquerading")
}

func cmdAdd(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	fail := func(err error) error { return inNetwork(err, c, args) }
	if !c.chained() {
		r, err := applyAttachment(c, args)
		if err != nil {
			return fail(err)
		}
		return types.PrintResult(r, c.CNIVersion)
	}
	a, err := c.attachment(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if err := applyAdd(a); err != nil {
		return fail(err)
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}

// fail ends the program as skel does after an error.
func fail(err error) {
	if isServicesCall() {
		warn("%v", err)
	} else {
		_ = types.NewError(types.ErrInternal, err.Error(), "").Print() // on stdout
	}
	os.Exit(1)
}

// The main goroutine stays on the main thread: see rootless.enter.
func init() { runtime.LockOSThread() }

// inNetwork adds the network and the sandbox to an error, and keeps its code.
func inNetwork(err error, c *config, args *skel.CmdArgs) error {
	code := uint(types.ErrInternal)
	var of *types.Error
	if errors.As(err, &of) {
		code = of.Code
	}
	text := err.Error()
	if prefix := "network " + c.Name + ": "; strings.HasPrefix(text, prefix) {
		text = text[len(prefix):]
	}
	return types.NewError(code, fmt.Sprintf("network %s, sandbox %s: %s", c.Name, args.ContainerID, text), "")
}

// cmdDel implements DEL. A chained plugin does not require its configuration for that: it searches every table for
// the attachment's IDs, so it finds the rules even if the bridge in the configuration has another name now.
func cmdDel(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil || c.chained() {
		gone := comment(args.ContainerID, args.IfName)
		return removeRulesOf("", func(comment string) bool { return comment == gone })
	}
	pool, err := c.addresses("")
	if err != nil {
		return err
	}
	if err := removeAttachment(c, pool, args); err != nil {
		return inNetwork(err, c, args)
	}
	return nil
}

func cmdGC(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	return collect(c)
}

func cmdCheck(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	a, err := c.attachment(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if !c.chained() {
		if err := readCheckLinks(c, args); err != nil {
			return inNetwork(err, c, args)
		}
	}
	if c.Rootless != nil {
		if err := c.Rootless.checkPorts(a); err != nil {
			return inNetwork(err, c, args)
		}
		a.ports = nil
	}
	if !c.hasRules() {
		return nil
	}
	return readCheck(a)
}

// statusUnavailable is the error code that STATUS returns if ADD cannot work (CNI specification
// 1.1, STATUS).
const statusUnavailable = 50

func cmdStatus(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := readTables(); err != nil {
		return types.NewError(statusUnavailable, "podrun-net cannot create nftables rules", err.Error())
	}
	if c.chained() {
		return nil
	}
	if c.Rootless != nil {
		if err := c.Rootless.status(); err != nil {
			return err
		}
	}
	pool, err := c.addresses("")
	if err != nil {
		return err
	}
	if err := probeRules(pool); err != nil {
		return types.NewError(statusUnavailable, "podrun-net cannot create nftables rules", explain(err).Error())
	}
	s, err := pool.openStore()
	if err != nil {
		return types.NewError(statusUnavailable, "podrun-net cannot reserve addresses", err.Error())
	}
	return s.Close()
}

// warn writes to stderr. containerd passes this on to its own stderr.
func warn(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "podrun-net: "+format+"\n", args...)
}

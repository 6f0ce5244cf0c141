// podrun-net is a CNI plugin, chained after bridge, that creates the same rules as
// upstream's portmap and ipMasq: host ports, masquerading, and forwarding on hosts whose
// firewall drops unknown traffic. It uses netlink: a host requires neither iptables nor
// nft, and the plugin executes no programs.
//
// The rules of a network are in one nftables table per address family, named after the
// bridge, and in the chain FORWARD of iptables' table filter. The DEL of the network's
// last attachment removes all of them. README.md describes both.
package main

import (
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: cmdAdd, Del: cmdDel, Check: cmdCheck, GC: cmdGC, Status: cmdStatus,
	}, version.All, "CNI plugin podrun-net: host ports and masquerading by nftables")
}

func cmdAdd(args *skel.CmdArgs) error {
	c, a, err := attachmentOf(args)
	if err != nil {
		return err
	}
	if err := applyAdd(a); err != nil {
		return fmt.Errorf("network %s, sandbox %s: %w", c.Name, args.ContainerID, err)
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}

// attachmentOf parses the configuration of a call and validates the attachment.
func attachmentOf(args *skel.CmdArgs) (*config, attachment, error) {
	c, err := parse(args.StdinData)
	if err != nil {
		return nil, attachment{}, err
	}
	a, err := c.attachment(args.ContainerID, args.IfName)
	return c, a, err
}

// cmdDel does not require the configuration: it identifies an attachment by its IDs in
// every table, so that renaming the bridge has no effect.
func cmdDel(args *skel.CmdArgs) error {
	gone := comment(args.ContainerID, args.IfName)
	return removeAttachments("", func(comment string) bool { return comment == gone })
}

func cmdGC(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	valid := map[string]bool{}
	for _, a := range c.ValidAttachments {
		valid[comment(a.ContainerID, a.IfName)] = true
	}
	return removeAttachments(c.Bridge, func(comment string) bool { return !valid[comment] })
}

func cmdCheck(args *skel.CmdArgs) error {
	_, a, err := attachmentOf(args)
	if err != nil {
		return err
	}
	return readCheck(a)
}

// statusUnavailable is the error code of STATUS if ADD cannot work (CNI specification
// 1.1, STATUS).
const statusUnavailable = 50

func cmdStatus(args *skel.CmdArgs) error {
	if _, err := parse(args.StdinData); err != nil {
		return err
	}
	if _, err := readTables(); err != nil {
		return types.NewError(statusUnavailable, "podrun-net cannot create nftables rules", err.Error())
	}
	return nil
}

// warn writes to stderr, which containerd passes on to its own.
func warn(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "podrun-net: "+format+"\n", args...)
}

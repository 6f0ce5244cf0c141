package cni

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/netdump"
	"github.com/podrun/podrun/internal/podnetns"
)

// ErrNoServices means that the network's plugin is from a release that does not support Services.
var ErrNoServices = errors.New("the running runtime's podrun-net does not support Services")

// SetServices makes the network forward the ports of a table (service.Table as JSON), unless the kernel
// already has the rules of this table. The arguments v4 and v6 report whether the table has ports of
// these address families. If both are false, SetServices removes the rules. podrun-net marks its rules
// with a hash of the table, so SetServices also restores rules that another program has removed.
func (n OwnNetwork) SetServices(ctx context.Context, bridge string, table []byte, v4, v6 bool) (changed bool, err error) {
	table = cniplugin.InNamespace(table)
	sum := sha256.Sum256(table)
	comment := "podrun-services " + hex.EncodeToString(sum[:16])
	same := true
	for family, wanted := range map[uint8]bool{unix.NFPROTO_IPV4: v4, unix.NFPROTO_IPV6: v6} {
		have, err := readComments(family, "podrun-services-"+bridge, "prerouting")
		if err != nil {
			return false, err
		}
		same = same && (wanted && slices.Contains(have, comment) || !wanted && len(have) == 0)
	}
	if same && !v4 && !v6 {
		// A podrun-net that was killed may have left routes without rules.
		left, err := hasServiceRoutes(bridge)
		if err != nil {
			return false, err
		}
		same = !left
	}
	if same {
		return false, nil
	}
	return true, n.callServices(ctx, table)
}

// serviceRouteProtocol is the protocol of the routes to virtual IPs, as podrun-net sets it.
const serviceRouteProtocol = 112

// hasServiceRoutes reports whether the bridge has routes to virtual IPs.
func hasServiceRoutes(bridge string) (bool, error) {
	return podnetns.Call(func() (bool, error) { return readServiceRoutes(bridge) })
}

// readServiceRoutes is hasServiceRoutes in the namespace of the bridge.
func readServiceRoutes(bridge string) (bool, error) {
	br, err := netlink.LinkByName(bridge)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the bridge %s: %w", bridge, err)
	}
	filter := &netlink.Route{LinkIndex: br.Attrs().Index, Protocol: serviceRouteProtocol}
	routes, err := netdump.Repeat(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return false, fmt.Errorf("list the routes of the bridge %s: %w", bridge, err)
	}
	return len(routes) > 0, nil
}

func (n OwnNetwork) callServices(ctx context.Context, table []byte) error {
	ctx, cancel := context.WithTimeout(ctx, firewallLimit)
	defer cancel()
	c := exec.CommandContext(ctx, n.Plugin, "services")
	c.Env = []string{}
	c.Stdin = bytes.NewReader(table)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("set the rules of Services: %w: %.500s", err, strings.TrimSpace(errs.String()))
	}
	if !strings.HasPrefix(out.String(), `{"services":`) {
		return ErrNoServices
	}
	return nil
}

package cni

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// TestSetServicesRemovesRoutesWithoutRules checks that podrun-net is called to remove the routes to virtual
// IPs that a killed podrun-net has left, although there are no rules; and that it is not called if there
// are neither.
func TestSetServicesRemovesRoutesWithoutRules(t *testing.T) {
	ring.RequireRoot(t)
	runtime.LockOSThread() // the thread ends with the test, because it is not unlocked
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), "podrun-net")
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\necho '{\"services\":{}}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	if err := netlink.LinkAdd(bridge); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		t.Fatal(err)
	}
	route := &netlink.Route{LinkIndex: bridge.Index, Dst: &net.IPNet{IP: net.IPv4(10, 127, 0, 0).To4(), Mask: net.CIDRMask(24, 32)}, Scope: netlink.SCOPE_LINK, Protocol: serviceRouteProtocol}
	for _, step := range []struct {
		name    string
		bridge  string
		change  func(*netlink.Route) error
		changed bool
	}{
		{"no route", "br0", nil, false},
		{"a route", "br0", netlink.RouteAdd, true},
		{"the route was removed", "br0", netlink.RouteDel, false},
		{"no bridge", "br1", nil, false},
	} {
		if step.change != nil {
			if err := step.change(route); err != nil {
				t.Fatal(err)
			}
		}
		if changed, err := (OwnNetwork{Plugin: plugin}).SetServices(t.Context(), step.bridge, []byte("{}"), false, false); err != nil || changed != step.changed {
			t.Errorf("%s: %v, %v", step.name, changed, err)
		}
	}
}

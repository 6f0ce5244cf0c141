package embedded

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	embed "github.com/podrun/podrun/embedded"
)

func itoa(n int) string { return strconv.Itoa(n) }

func getsid(pid int) (int, error) { return unix.Getsid(pid) }

// asOlder stops the daemon and changes the digest of the unpacked archive. The state is then the
// same as if podrun had started another archive.
func (r *rig) asOlder(current, older string) error {
	r.Helper()
	r.kill()
	if err := os.Remove(r.layout.Daemon()); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", r.layout.Unpacked(current), r.layout.Unpacked(older)).CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return embed.WriteChoice(r.layout, embed.Choice{Kind: embed.Own, Digest: older})
}

// podPID returns the process ID of the pod's container.
func (r *rig) podPID() string {
	r.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		r.Fatal(err)
	}
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(line), "httpd\x00-f\x00") {
			pid := strings.Split(name, "/")[2]
			if groups, err := os.ReadFile("/proc/" + pid + "/cgroup"); err == nil && strings.Contains(string(groups), r.cgroup()) {
				return pid
			}
		}
	}
	r.Fatal("the pod's container does not run")
	return ""
}

// addRoute adds a route to the loopback interface until the test ends.
func addRoute(t *testing.T, to netip.Prefix) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)}}
	t.Cleanup(func() {
		if err := netlink.RouteDel(route); err != nil {
			t.Error(err)
		}
	})
	return netlink.RouteAdd(route)
}

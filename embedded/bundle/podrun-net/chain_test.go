package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	current "github.com/containernetworking/cni/pkg/types/100"
)

// The plugins of podrun's own runtime, run by libcni as in containerd: upstream's bridge
// and host-local, and podrun-net.
func TestChain(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	for _, name := range []string{"main/bridge", "ipam/host-local"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "github.com/containernetworking/plugins/plugins/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "podrun-net")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"podrun","plugins":[
		{"type":"bridge","bridge":"podrun0","isGateway":true,"hairpinMode":true,"ipam":{"type":"host-local","dataDir":%q,
			"ranges":[[{"subnet":"10.99.0.0/24"}],[{"subnet":"fd00:99::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}},
		{"type":"podrun-net","bridge":"podrun0","capabilities":{"portMappings":true}}]}`, filepath.Join(dir, "leases")))
	if err != nil {
		t.Fatal(err)
	}
	cni := libcni.NewCNIConfigWithCacheDir([]string{dir}, filepath.Join(dir, "cache"), nil)
	p := &pod{space: newSpace(t), host: h, id: "abc"}
	rt := &libcni.RuntimeConf{ContainerID: p.id, IfName: "eth0", NetNS: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(p.ns)),
		CapabilityArgs: map[string]any{"portMappings": []portMapping{{8080, 80, "tcp", ""}}}}
	h.do(func() {
		result, err := cni.AddNetworkList(t.Context(), list, rt)
		if err != nil {
			t.Errorf("ADD: %v", err)
			return
		}
		r, err := current.NewResultFromResult(result)
		if err != nil || len(r.IPs) != 2 || r.IPs[0].Address.String() != "10.99.0.2/24" || len(r.Interfaces) != 3 {
			t.Errorf("result %+v, %v", result, err)
		}
		if err := cni.CheckNetworkList(t.Context(), list, rt); err != nil {
			t.Errorf("CHECK: %v", err)
		}
		if err := cni.GetStatusNetworkList(t.Context(), list); err != nil {
			t.Errorf("STATUS: %v", err)
		}
	})
	p.serve("tcp", ":80")
	h.outside.serve("tcp", ":90")
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	h.outside.wants("tcp", "["+hostIP6+"]:8080", "hi "+outsideIP6)
	h.wants("tcp", "127.0.0.1:8080", "hi 10.99.0.1")
	p.wants("tcp", hostIP4+":8080", "hi 10.99.0.1")
	p.wants("tcp", outsideIP4+":90", "hi "+hostIP4)
	h.do(func() {
		if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
			t.Errorf("DEL: %v", err)
		}
		if err := cni.GCNetworkList(t.Context(), list, nil); err != nil {
			t.Errorf("GC: %v", err)
		}
	})
	h.leftNothing()
}

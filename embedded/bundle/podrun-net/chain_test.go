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

// upstream returns a directory with upstream's bridge and host-local, and podrun-net.
func upstream(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"main/bridge", "ipam/host-local"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "github.com/containernetworking/plugins/plugins/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	linkSelf(t, filepath.Join(dir, "podrun-net"))
	return dir
}

// linkSelf links the plugin to a path.
func linkSelf(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestChain tests the network of an earlier release, which consists of upstream's bridge and host-local, and
// podrun-net. libcni runs these plugins, as in containerd.
func TestChain(t *testing.T) {
	if ring := os.Getenv("PODRUN_TEST_RING"); ring < "2" {
		t.Skip("ring 2: builds two plugins of upstream; 'make test-all' runs this test (PODRUN_TEST_RING=2)")
	}
	h := newHost(t)
	dir := upstream(t)
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

// lists returns the network's configuration in the earlier and in this release.
func (w *wholeNet) lists() (chain, whole *libcni.NetworkConfigList) {
	w.t.Helper()
	ipam := fmt.Sprintf(`"isDefaultGateway":true,"hairpinMode":true,"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.99.0.0/24"}],[{"subnet":"fd00:99::/64"}]]}`, w.dir)
	const format = `{"cniVersion":"1.0.0","name":"podrun","plugins":[%s]}`
	parse := func(plugins string) *libcni.NetworkConfigList {
		list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, format, plugins))
		if err != nil {
			w.t.Fatal(err)
		}
		return list
	}
	return parse(`{"type":"bridge","bridge":"br0",` + ipam + `},{"type":"podrun-net","bridge":"br0","capabilities":{"portMappings":true}}`),
		parse(`{"type":"podrun-net","bridge":"br0",` + ipam + `,"capabilities":{"portMappings":true,"io.kubernetes.cri.pod-annotations":true}}`)
}

// The runtime uses its current configuration for the DEL of older attachments. After an
// upgrade and after a downgrade, DEL leaves nothing, and pods of both releases reach each
// other. The plugin must also work under the name bridge: after a downgrade, an older podrun
// that starts this release's archive configures its own chain of plugins, bridge and then
// podrun-net, and both names are then this plugin.
func TestUpgradeAndDowngrade(t *testing.T) {
	dir := upstream(t)
	inPlace := t.TempDir()
	linkSelf(t, filepath.Join(inPlace, "bridge"))
	linkSelf(t, filepath.Join(inPlace, "podrun-net"))
	for name, c := range map[string]struct {
		add, del  string // the directory of the plugins
		upgrade   bool
		downgrade bool
	}{
		"upgrade":             {dir, inPlace, true, false},
		"downgrade":           {inPlace, dir, false, true},
		"downgrade of podrun": {inPlace, inPlace, false, true},
		"no change":           {inPlace, inPlace, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t)
			before, after := w.lists()
			if !c.upgrade {
				before, after = after, before
			}
			if !c.upgrade && !c.downgrade {
				after = before
			}
			cache := t.TempDir()
			first, second := w.sandbox(), w.sandbox()
			runtime := func(p *pod, port int) *libcni.RuntimeConf {
				return &libcni.RuntimeConf{ContainerID: p.id, IfName: "eth0", NetNS: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(p.ns)),
					CapabilityArgs: map[string]any{"portMappings": []portMapping{{port, 80, "tcp", ""}}, "io.kubernetes.cri.pod-annotations": map[string]string{}}}
			}
			cni := func(dir string) *libcni.CNIConfig { return libcni.NewCNIConfigWithCacheDir([]string{dir}, cache, nil) }
			w.do(func() {
				if _, err := cni(c.add).AddNetworkList(t.Context(), before, runtime(first, 8080)); err != nil {
					t.Errorf("ADD: %v", err)
				}
				if _, err := cni(c.del).AddNetworkList(t.Context(), after, runtime(second, 8081)); err != nil {
					t.Errorf("ADD of the other release: %v", err)
				}
				if err := cni(c.del).CheckNetworkList(t.Context(), after, runtime(second, 8081)); err != nil {
					t.Errorf("CHECK: %v", err)
				}
			})
			for i, p := range []*pod{first, second} {
				p.serve("tcp", ":80")
				w.outside.wants("tcp", fmt.Sprintf("%s:%d", hostIP4, 8080+i), "hi "+outsideIP4)
			}
			first.wants("tcp", "10.99.0.3:80", "hi 10.99.0.2")
			second.wants("tcp", "[fd00:99::2]:80", "hi fd00:99::3")
			w.do(func() {
				for i, p := range []*pod{first, second} {
					if err := cni(c.del).DelNetworkList(t.Context(), after, runtime(p, 8080+i)); err != nil {
						t.Errorf("DEL: %v", err)
					}
				}
			})
			w.empty()
		})
	}
}

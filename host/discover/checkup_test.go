package discover

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/test/ring"
)

func TestCNI(t *testing.T) {
	const list = `{"name": "web", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap"}]}`
	for name, tc := range map[string]struct {
		files map[string]string
		told  host.Runtime
		want  host.CNI
	}{
		"nothing": {nil, host.Runtime{}, host.CNI{ConfDir: "/etc/cni/net.d"}},
		"a list": {map[string]string{"/etc/cni/net.d/20-b.conf": "{", "/etc/cni/net.d/10-a.conflist": list, "/etc/cni/net.d/00-README": "x", "/opt/cni/bin/bridge": "", "/usr/lib/cni/portmap": ""}, host.Runtime{},
			host.CNI{ConfDir: "/etc/cni/net.d", Config: "/etc/cni/net.d/10-a.conflist", Network: "web", Plugins: []string{"bridge", "host-local", "portmap"}, Missing: []string{"host-local"}, BridgeInstalled: true}},
		"a single one": {map[string]string{"/etc/cni/net.d/a.conf": `{"name": "one", "type": "macvlan"}`}, host.Runtime{},
			host.CNI{ConfDir: "/etc/cni/net.d", Config: "/etc/cni/net.d/a.conf", Network: "one", Plugins: []string{"macvlan"}, Missing: []string{"macvlan"}}},
		// podrun's own plugin allocates addresses itself, in the format of host-local.
		"podrun-net": {map[string]string{"/x/10-podrun.conflist": `{"name": "podrun-1", "plugins": [{"type": "podrun-net", "ipam": {"type": "host-local"}}]}`, "/y/podrun-net": ""}, host.Runtime{CNIConfDir: "/x", CNIBinDirs: []string{"/y"}},
			host.CNI{ConfDir: "/x", Config: "/x/10-podrun.conflist", Network: "podrun-1", Plugins: []string{"podrun-net"}}},
		"broken": {map[string]string{"/etc/cni/net.d/a.conf": "{"}, host.Runtime{},
			host.CNI{ConfDir: "/etc/cni/net.d", Config: "/etc/cni/net.d/a.conf", Problem: "not a CNI configuration: unexpected end of JSON input"}},
		"without plugins": {map[string]string{"/etc/cni/net.d/a.conf": "{}"}, host.Runtime{},
			host.CNI{ConfDir: "/etc/cni/net.d", Config: "/etc/cni/net.d/a.conf", Problem: "it has no plugins"}},
		"elsewhere": {map[string]string{"/x/a.conflist": list, "/y/bridge": "", "/y/portmap": "", "/y/host-local": ""}, host.Runtime{CNIConfDir: "/x", CNIBinDirs: []string{"/y"}},
			host.CNI{ConfDir: "/x", Config: "/x/a.conflist", Network: "web", Plugins: []string{"bridge", "host-local", "portmap"}, BridgeInstalled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := networkConfig{tree(t, tc.files)}.cni(tc.told)
			if tc.told.CNIBinDirs == nil {
				tc.want.BinDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}
			} else {
				tc.want.BinDirs = tc.told.CNIBinDirs
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestCRIDisabledIn(t *testing.T) {
	for text, off := range map[string]bool{
		`disabled_plugins = ["cri"]`:                                          true,
		"version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]":     true,
		"version = 3\n  disabled_plugins = ['a', 'io.containerd.cri.v1.cri']": true,
		"disabled_plugins = [\n  \"cri\",\n]":                                 true,
		`#disabled_plugins = ["cri"]`:                                         false,
		`disabled_plugins = []`:                                               false,
		`disabled_plugins = ["btrfs"]`:                                        false,
	} {
		m := tree(t, map[string]string{"/etc/containerd/config.toml": text})
		if got := (checkup{m}).criDisabledIn("/etc/containerd/config.toml") != ""; got != off {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got := (checkup{tree(t, nil)}).criDisabledIn("/etc/containerd/config.toml"); got != "" {
		t.Errorf("no file: %q", got)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if d := directory("--root-dir", filepath.Join(dir, "a", "b")); !d.Writable || d.Problem != "" || d.FreeBytes == 0 || d.LongName == 0 {
		t.Errorf("a directory that can be created: %+v", d)
	}
	for _, path := range []string{file, "/proc/podrun", "/sys/podrun"} {
		if d := directory("--root-dir", path); d.Writable && path == file || d.Writable && os.Geteuid() != 0 {
			t.Errorf("%s: %+v", path, d)
		}
	}
}

// TestFullDirectory checks that a file system counts as full if even root cannot write to it.
func TestFullDirectory(t *testing.T) {
	ring.RequireRoot(t)
	for want, options := range map[string]string{"": "size=1m,nr_inodes=100", "space": "size=64k,nr_inodes=100", "inodes": "size=1m,nr_inodes=2"} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if d := directory("--root-dir", dir); d.Full != want || !d.Writable {
			t.Errorf("%s: %+v, want %q", options, d, want)
		}
	}
}

// TestParseContainerdConfig parses containerd's verbose status in the form of each version.
func TestParseContainerdConfig(t *testing.T) {
	config := parseContainerdConfig(`{"cni": {"binDir": "/usr/lib/cni", "confDir": "/etc/x"}, "restrictOOMScoreAdj": true}`)
	if config.RestrictOOM == nil || !*config.RestrictOOM || config.CNI.ConfDir != "/etc/x" || !slices.Equal(config.CNI.bins(), []string{"/usr/lib/cni"}) {
		t.Errorf("%+v", config)
	}
	if !parseContainerdConfig(`{"disableProcMount": true}`).DisableProcMount || config.DisableProcMount {
		t.Error("disable_proc_mount")
	}
	for config, want := range map[string]string{
		`{"containerd": {}}`: "no", `{"containerd": {}, "enableCDI": false, "cdiSpecDirs": ["/etc/cdi"]}`: "no", `{"containerd": {}, "enableCDI": true}`: "yes",
		`{"containerd": {}, "cdiSpecDirs": ["/etc/cdi"]}`: "yes", "[crio]": "unknown", `{}`: "unknown",
	} {
		got := "unknown"
		if cdi := parseContainerdConfig(config).cdi(); cdi != nil {
			got = map[bool]string{true: "yes", false: "no"}[*cdi]
		}
		if got != want {
			t.Errorf("CDI by %s: %s, want %s", config, got, want)
		}
	}
	if bins := parseContainerdConfig(`{"cni": {"binDirs": ["/a", "/b"]}}`).CNI.bins(); !slices.Equal(bins, []string{"/a", "/b"}) {
		t.Error(bins)
	}
	if config := parseContainerdConfig("[crio]\n"); config.RestrictOOM != nil || config.CNI.bins() != nil {
		t.Errorf("of CRI-O: %+v", config)
	}
}

// TestExamineThisHost checks that without a runtime, podrun reads all other facts.
func TestExamineThisHost(t *testing.T) {
	s := nodeconfig.Default()
	s.RootDir = t.TempDir()
	e := Examine(t.Context(), nil, s, Options{})
	if e.Down != nil || len(e.Unread) > 0 {
		t.Fatalf("%v %v", e.Down, e.Unread)
	}
	if e.Facts.NodeName == "" || e.Facts.Capacity.Cpu().IsZero() || len(e.Checkup.Directories) != 3 || e.Checkup.CNI.ConfDir == "" || e.Checkup.RuntimePID != 0 {
		t.Errorf("%+v %+v", e.Facts, e.Checkup)
	}
}

// TestUsualMounts checks that if cgroups are mounted at the usual paths, the list of all mounts
// gives the same result.
func TestUsualMounts(t *testing.T) {
	if _, _, ok := (cgroups{tree(t, map[string]string{"proc/self/cgroup": "1:cpu:/\n0::/\n"})}).usualMounts(); ok {
		t.Error("a directory is treated as a mount")
	}
	v1, unified, ok := cgroups{machine{ctx: t.Context(), root: "/"}}.usualMounts()
	if !ok {
		t.Skip("this host mounts cgroups at other paths")
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	listed, other := listedMounts(string(data))
	if !reflect.DeepEqual(v1, listed) || unified != other {
		t.Errorf("%v %q; the list has %v %q", v1, unified, listed, other)
	}
}

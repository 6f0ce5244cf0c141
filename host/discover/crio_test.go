package discover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/host"
)

// crioHost returns a machine with these files.
func crioHost(t *testing.T, files map[string]string) machine {
	t.Helper()
	m := machine{ctx: t.Context(), root: t.TempDir()}
	for name, text := range files {
		path := m.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestCRIOConfiguration(t *testing.T) {
	m := crioHost(t, map[string]string{
		"/etc/crio/crio.conf": `[crio.image]
pause_image = "registry.example/pause:1"
[crio.network]
network_dir = "/etc/first"
[crio.runtime]
default_runtime = "runc"
default_ulimits = ["nofile=1:2"]`,
		"/etc/crio/crio.conf.d/20-net": "[crio.network]\nnetwork_dir = \"/etc/second\"\nplugin_dirs = [\"/opt/a\", \"/opt/b\"]",
		"/etc/crio/crio.conf.d/10-min": "[crio.runtime.runtimes.runc]\ncontainer_min_memory = \"12MiB\"\n[crio.runtime]\ncdi_spec_dirs = [\"/etc/mycdi\"]\n[crio.network]\nnetwork_dir = \"/etc/between\"",
	})
	r := host.Runtime{Name: "cri-o", SandboxImg: ""}
	crio{m}.addCRIO(&r, "unix:///none.sock", "{}")
	want := host.Runtime{
		Name: "cri-o", SandboxImg: "registry.example/pause:1", CNIConfDir: "/etc/second", CNIBinDirs: []string{"/opt/a", "/opt/b"}, CDIDirs: []string{"/etc/mycdi"},
		ConfigFiles: []string{"/etc/crio/crio.conf", "/etc/crio/crio.conf.d/10-min", "/etc/crio/crio.conf.d/20-net"},
		MinMemory:   map[string]int64{"": 12 << 20, "runc": 12 << 20}, Ulimits: []string{"nofile=1:2"},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The configuration in CRI-O's status must take precedence.
	r = host.Runtime{Name: "cri-o", SandboxImg: "registry.example/pause:2"}
	crio{m}.addCRIO(&r, "", `{"sandboxImage":"x","crio":{"DefaultRuntime":"crun","CDISpecDirs":["/run/cdi"],"DefaultUlimits":[],"Runtimes":{"crun":{"ContainerMinMemory":"500KiB"}}}}`)
	if r.SandboxImg != "registry.example/pause:2" || r.CDIDirs[0] != "/run/cdi" || len(r.Ulimits) > 0 || r.MinMemory[""] != 500<<10 || r.MinMemory["runc"] != 12<<20 {
		t.Errorf("%+v", r)
	}
}

func TestCRIOWithoutConfiguration(t *testing.T) {
	r := host.Runtime{Name: "cri-o"}
	crio{crioHost(t, nil)}.addCRIO(&r, "", "")
	if diff := cmp.Diff(host.Runtime{Name: "cri-o"}, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r = host.Runtime{Name: "cri-o"}
	crio{crioHost(t, map[string]string{"/etc/crio/crio.conf.d/a.conf": "[crio]\n"})}.addCRIO(&r, "", "")
	if r.CNIConfDir != "/etc/cni/net.d" || !slices.Equal(r.CNIBinDirs, []string{"/opt/cni/bin"}) || r.MinMemory != nil {
		t.Errorf("%+v", r)
	}
	r = host.Runtime{Name: "cri-o"}
	crio{crioHost(t, map[string]string{"/etc/crio/crio.conf": "[crio.image]\npause_image = \"a\"\nbroken"})}.addCRIO(&r, "", "")
	if r.ConfigProblem != "/etc/crio/crio.conf: line 3: expected '=' after key" || r.SandboxImg != "a" {
		t.Errorf("%+v", r)
	}
}

// TestCRIOSyntax covers syntax that earlier versions of podrun could not parse, and lists that
// override others.
func TestCRIOSyntax(t *testing.T) {
	read := func(texts ...string) host.Runtime {
		files := map[string]string{}
		for i, text := range texts {
			files[fmt.Sprintf("/etc/crio/crio.conf.d/%d", i)] = text
		}
		var r host.Runtime
		crio{crioHost(t, files)}.addCRIO(&r, "", "")
		return r
	}
	r := read("crio.runtime = {default_runtime = 'my.crun', default_ulimits = [\n'nofile=1:2', # comment with ]\n], other = 2026-01-01}\n" +
		"[crio.image]\npause_image = \"\"\"\na\\u00e9\"\"\"\n[[crio.tables]]\nkey = 1.5e3")
	if r.ConfigProblem != "" || r.SandboxImg != "aé" || !slices.Equal(r.Ulimits, []string{"nofile=1:2"}) {
		t.Errorf("%+v", r)
	}
	r = read("[crio.runtime.runtimes.\"my.crun\"]\ncontainer_min_memory = '1MiB'\n[crio.runtime]\ndefault_runtime = 'my.crun'\ndefault_ulimits = ['a']", "[crio.runtime]\ndefault_ulimits = []")
	if r.ConfigProblem != "" || len(r.Ulimits) != 0 || r.MinMemory[""] != 1<<20 || r.MinMemory["my.crun"] != 1<<20 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		"[crio.image]\npause_image = 3":               "line 2: cannot decode TOML integer",
		"\n\n[crio":                                   "line 3: ",
		"[crio.image]\na = 1\na = 2":                  "line 3: key a is already defined",
		"a = " + strings.Repeat("[", maxCRIOFile-100): "line 1: arrays and inline tables are nested",
	} {
		if r := read(text); !strings.Contains(r.ConfigProblem, want) {
			t.Errorf("%.40q: %.200q, want %q", text, r.ConfigProblem, want)
		}
	}
}

// podrun must limit the number of files and their sizes.
func TestCRIOConfigurationBounds(t *testing.T) {
	files := map[string]string{"/etc/crio/crio.conf": "[crio.image]\npause_image = \"a\" #" + string(make([]byte, maxCRIOFile))}
	for i := range 2 * maxCRIOFiles {
		files[fmt.Sprintf("/etc/crio/crio.conf.d/%03d", i)] = "[crio]\n"
	}
	var r host.Runtime
	crio{crioHost(t, files)}.addCRIO(&r, "", "")
	if len(r.ConfigFiles) != maxCRIOFiles-1 || r.ConfigProblem == "" || r.SandboxImg != "" {
		t.Errorf("%d files, %q, %q", len(r.ConfigFiles), r.ConfigProblem, r.SandboxImg)
	}
}

func TestCRIOFlags(t *testing.T) {
	for _, c := range []struct {
		args      []string
		file, dir string
	}{
		{[]string{"crio"}, "f", "d"},
		{[]string{"crio", "--config", "/a", "--config-dir=/b", ""}, "/a", "/b"},
		{[]string{"crio", "-c", "/a", "-d", "", "--log-level", "debug"}, "/a", ""},
		{[]string{"crio", "--config"}, "", "d"},
	} {
		if file, dir := crioFlags(c.args, "f", "d"); file != c.file || dir != c.dir {
			t.Errorf("%q: %q, %q", c.args, file, dir)
		}
	}
}

func TestRAMInBytes(t *testing.T) {
	for size, want := range map[string]int64{"12MiB": 12 << 20, "12 MiB": 12 << 20, "12.5m": 12<<20 + 1<<19, "500KiB": 500 << 10, "1g": 1 << 30, "4096": 4096, "4096b": 4096, "": -1, "x": -1, "1x": -1, "-1m": -1, "1i": -1} {
		if got, ok := ramInBytes(size); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", size, got, ok)
		}
	}
}

// An empty directory on CRI-O's command line means no directory. It does not mean the root
// directory.
func TestCRIOWithoutDirectory(t *testing.T) {
	m := crioHost(t, map[string]string{"/etc/crio/crio.conf": "[crio]\n", "/other": "[crio.image]\npause_image = \"a\""})
	for _, dir := range []string{"", ".", "etc"} {
		if c := (crio{m}).readCRIO("/etc/crio/crio.conf", dir); !slices.Equal(c.files, []string{"/etc/crio/crio.conf"}) {
			t.Errorf("%q: %q", dir, c.files)
		}
	}
	if c := (crio{m}).readCRIO("", ""); len(c.files) > 0 || c.problem != "" {
		t.Errorf("%q, %q", c.files, c.problem)
	}
}

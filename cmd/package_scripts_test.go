package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestPackageRemoval runs the script that dpkg and rpm execute before they remove a package, in a root
// file system with busybox and a systemctl that records its arguments. A package that replaces another
// one takes over its service: rpm then calls the script with 0, as for a removal.
func TestPackageRemoval(t *testing.T) {
	ring.RequireRoot(t)
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("no busybox")
	}
	const licenses = "usr/share/licenses/"
	for name, c := range map[string]struct {
		args      []string
		installed []string
		disables  bool
	}{
		"rpm removal":                       {[]string{"0"}, []string{"podrun-bundle"}, true},
		"rpm upgrade":                       {[]string{"1"}, []string{"podrun"}, false},
		"rpm swap of podrun, podrun-bundle": {[]string{"0"}, []string{"podrun", "podrun-bundle"}, false},
		"deb removal":                       {[]string{"remove"}, nil, true},
		"deb swap":                          {[]string{"remove", "in-favour", "podrun-bundle", "1"}, nil, false},
		"deb upgrade":                       {[]string{"upgrade", "2"}, nil, false},
	} {
		root := t.TempDir()
		files := map[string]string{
			"bin/busybox":          string(busybox),
			"bin/systemctl":        "#!/bin/busybox sh\necho \"$*\" >>/log\n",
			"preremove":            readPage(t, "../hack/package/preremove"),
			"run/systemd/system/x": "",
			"dev/null":             "",
			"log":                  "",
		}
		for _, p := range c.installed {
			files[licenses+p+"/LICENSE"] = ""
		}
		for file, text := range files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, applet := range []string{"sh", "grep", "find", "mkdir", "chmod", "cp", "rm"} {
			if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
				t.Fatal(err)
			}
		}
		script := exec.Command("/bin/sh", append([]string{"/preremove"}, c.args...)...)
		script.Path, script.Dir, script.Env = "/bin/sh", "/", []string{"PATH=/bin"}
		script.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if out, err := script.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if log := readPage(t, filepath.Join(root, "log")); strings.Contains(log, "disable --now podrun.service") != c.disables {
			t.Errorf("%s: systemctl %q", name, log)
		}
	}
}

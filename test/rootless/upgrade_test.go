package rootless

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podrun/podrun/embedded"
)

// TestUpgrade checks that podrun-rootless of the former archive remains usable after an upgrade of containerd, although
// no container uses the archive, and that podrun names it until `runtime down`.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	u.must("runtime", "up")
	l := embedded.Layout{RootDir: filepath.Join(u.home, ".local/share/podrun"), RunDir: u.runDir()}
	program := u.record().Program
	current := filepath.Base(filepath.Dir(filepath.Dir(program)))
	u.shows("process "+strconv.Itoa(u.record().PID)+")", "runtime", "status")
	if out := u.must("runtime", "status"); strings.Contains(out, "former") {
		t.Errorf("before the upgrade:\n%s", out)
	}

	// The files are the same, but have the digest of an older archive.
	older := strings.Repeat("0", 64)
	for pid := range u.processes() {
		u.kill(pid)
	}
	u.check(os.Rename(l.Unpacked(current), l.Unpacked(older)))
	u.check(os.Remove(l.Daemon()))
	u.check(embedded.WriteChoice(l, embedded.Choice{Kind: embedded.Own, Digest: older}))
	u.own(u.home)
	u.must("runtime", "up")
	if got := u.record().Program; !strings.Contains(got, older) {
		t.Fatalf("podrun-rootless is %s", got)
	}

	out := u.must("runtime", "upgrade")
	if !strings.Contains(out, "runtime upgraded") || !strings.Contains(out, "podrun-rootless still runs from the former archive") || !strings.Contains(out, "podrun runtime down") {
		t.Errorf("the upgrade prints\n%s", out)
	}
	u.shows("no pods found", "get")
	u.shows("of the former archive", "runtime", "status")
	u.write("web.yaml", fmt.Sprintf(webPod, "web", usersImage, port(t)))
	u.must("apply", "web.yaml")
	u.must("delete", "web")
	u.must("runtime", "down")
	u.must("runtime", "up")
	if got := u.record().Program; !strings.Contains(got, current) {
		t.Errorf("after 'runtime down', podrun-rootless is %s", got)
	}
}

// TestMetadata checks the setting that lets pods connect to the metadata service of a cloud.
func TestMetadata(t *testing.T) {
	t.Parallel()
	u := newUser(t, true)
	u.write(".config/podrun/config.yaml", "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nallowMetadata: true\n")
	u.must("runtime", "up")
	if r := u.record(); !r.AllowMetadata {
		t.Errorf("the record is %+v", r)
	}
	u.shows("pods can connect to the metadata service", "runtime", "status")
	u.kill(u.record().PID)
	u.must("get")
	if r := u.record(); !r.AllowMetadata {
		t.Errorf("after a restart, the record is %+v", r)
	}
}

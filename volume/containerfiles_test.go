package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/internal/treetest"
)

func TestWriteHostsKeepsTheFileThatContainersMounted(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	write := func(text string) uint64 {
		if err := WriteHosts(t.Context(), plan.Layout, plan.ID.UID, []byte(text)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(plan.Layout.Pod(plan.ID.UID).EtcHosts())
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*unixStat).Ino
	}
	if a, b := write("longer content"), write("short"); a != b {
		t.Errorf("inode %d became %d", a, b)
	}
	if data, _ := os.ReadFile(plan.Layout.Pod(plan.ID.UID).EtcHosts()); string(data) != "short" {
		t.Errorf("content %q", data)
	}
}

func TestMakeTerminationLogRefusesASymlink(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	target := filepath.Join(t.TempDir(), "target")
	treetest.Write(t, target)
	if err := MakeContainerDir(plan.Layout, plan.ID.UID, "app"); err != nil {
		t.Fatal(err)
	}
	os.Symlink(target, filepath.Join(plan.Layout.Pod(plan.ID.UID).Container("app"), "00c0ffee"))
	if _, err := MakeTerminationLog(plan.Layout, plan.ID.UID, "app", "00c0ffee"); err == nil {
		t.Error("no error")
	}
	if info, _ := os.Stat(target); info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the target became %v", info.Mode())
	}
}

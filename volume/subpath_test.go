package volume

import (
	"os"
	"testing"

	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/internal/treetest"
)

func TestBindSubpathIsRemovedWithThePod(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	volume := plan.Volumes[0].HostPath
	treetest.Write(t, volume+"/dir/file")
	for i, sub := range []string{"dir", "dir/file"} {
		f, err := safepath.OpenSubpath(t.Context(), volume, sub)
		if err != nil {
			t.Fatal(err)
		}
		target := plan.Layout.Pod(plan.ID.UID).Subpath("disk", "app", i)
		// If the name is replaced after the open, the opened file must be mounted.
		if i == 0 {
			os.Rename(volume+"/dir", volume+"/moved")
			os.Symlink("/etc", volume+"/dir")
		}
		if err := safepath.Bind(f, target); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if i == 0 {
			wantIntact(t, target+"/file")
			os.Remove(volume + "/dir")
			os.Rename(volume+"/moved", volume+"/dir")
		} else {
			wantIntact(t, target)
		}
	}
	if n := len(mountsBelow(t, plan.Dir)); n != 2 {
		t.Errorf("%d mounts, want 2", n)
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

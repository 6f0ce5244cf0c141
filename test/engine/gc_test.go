package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/run"
)

// TestGC checks that gc finds and removes leftovers of a killed delete, and a link to a removed
// log. It must keep a running pod, and logs without a mark.
func TestGC(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Always"), run.OutcomeCreated)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r.rt.ForgetCalls()
	r.killAt(ctx, step{method: "RemovePodSandbox"}, false, "")
	kept := r.mustApply(podText("kept", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
	link := filepath.Join(r.settings.ContainerLogsDir, "gone_default_app-abc.log")
	logs := filepath.Join(r.settings.PodLogsDir, "default_other_uid")
	if err := os.Symlink(filepath.Join(r.settings.PodLogsDir, "default_gone_u/app/0.log"), link); err != nil {
		t.Fatal(err)
	}
	old := unix.NsecToTimeval(time.Now().Add(-time.Hour).UnixNano())
	if err := unix.Lutimes(link, []unix.Timeval{old, old}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		found, err := r.engine().GC(t.Context(), run.GCOptions{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]run.Leftover{}
		for _, l := range found {
			got[l.Kind+" "+l.Name] = l
		}
		if pod := got["pod default/web"]; pod.Why != "its removal was interrupted" || pod.Removed == dry {
			t.Errorf("dry %v: the pod: %+v", dry, pod)
		}
		if l := got["link "+link]; l.Why == "" || l.Removed == dry {
			t.Errorf("dry %v: the link: %+v", dry, l)
		}
		if l := got["logs "+logs]; !l.Kept || l.Removed {
			t.Errorf("dry %v: the logs: %+v", dry, l)
		}
		if len(got) != 3 {
			t.Errorf("dry %v: %d leftovers: %+v", dry, len(got), got)
		}
	}
	if found, err := r.engine().GC(t.Context(), run.GCOptions{}); err != nil || len(found) != 1 {
		t.Errorf("again: %+v, %v", found, err)
	}
	known := r.known()
	if len(known) != 1 || known[0].ID != kept.ID {
		t.Errorf("left: %v", known)
	}
	if err := os.Remove(logs); err != nil {
		t.Fatal(err)
	}
	r.mustDelete()
}

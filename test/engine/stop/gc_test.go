package stop

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestGC checks that gc finds and removes leftovers of a killed delete, and a link to a removed
// log. It must keep a running pod, and logs without a mark.
func TestGC(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	r.KillAt(rig.Step{Method: "RemovePodSandbox"}, false, "")
	kept := r.MustApply(rig.PodText("kept", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
	link := filepath.Join(r.Settings.ContainerLogsDir, "gone_default_app-abc.log")
	logs := filepath.Join(r.Settings.PodLogsDir, "default_other_uid")
	if err := os.Symlink(filepath.Join(r.Settings.PodLogsDir, "default_gone_u/app/0.log"), link); err != nil {
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
		found, err := run.GC(t.Context(), r.Engine(), run.GCOptions{DryRun: dry})
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
	if found, err := run.GC(t.Context(), r.Engine(), run.GCOptions{}); err != nil || len(found) != 1 {
		t.Errorf("again: %+v, %v", found, err)
	}
	known := r.Known()
	if len(known) != 1 || known[0].ID != kept.ID {
		t.Errorf("left: %v", known)
	}
	if err := os.Remove(logs); err != nil {
		t.Fatal(err)
	}
	r.MustDelete()
}

// TestGCKeepsAPodThatIsUsedAgain applies a leftover while gc removes another one. gc must not remove the
// applied pod, and must report that it keeps it.
func TestGCKeepsAPodThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := func(name string) string {
		return rig.PodText(name, "Always", "containers: [{name: app, image: registry.example/app:1}]")
	}
	for _, name := range []string{"a", "b"} {
		created := r.MustApply(text(name), run.OutcomeCreated)
		if err := os.RemoveAll(string(r.Layout().Pod(created.ID.UID))); err != nil {
			t.Fatal(err)
		}
	}
	e := r.Engine()
	var once sync.Once
	e.Emit = func(ev event.Event) {
		if ev.Pod != "a" {
			t.Errorf("event about pod %s: %+v", ev.Pod, ev)
		}
		once.Do(func() {
			if result := r.Apply(text("b")); result.Err != nil {
				t.Error(result.Err)
			}
		})
	}
	found, err := run.GC(t.Context(), e, run.GCOptions{})
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if a, b := found[0], found[1]; !a.Removed || b.Removed || !b.Kept || b.Why != "another podrun command has used it since" {
		t.Errorf("leftovers: %+v", found)
	}
	r.OneReadySandbox()
	r.MustApply(text("b"), run.OutcomeUnchanged)
	r.MustDelete()
}

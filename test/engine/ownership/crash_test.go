package ownership

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// crashRig returns a host for faultPod. The counter is the number of times that the pod's hook was
// run.
func crashRig(t *testing.T) (*rig.Host, *atomic.Int64) {
	r := faultRig(t, rig.Step{})
	var hooks atomic.Int64
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { hooks.Add(1); return &critest.Exec{} })
	return r, &hooks
}

// TestApplyKilled kills podrun at every call of an apply that changes something, before and after
// its effect. The next apply must converge, including the hook, and delete must then leave nothing
// behind. A delete instead of that apply must also leave nothing behind.
func TestApplyKilled(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig.Host) { r.MustApply(faultPod, run.OutcomeCreated) })
	steps = slices.DeleteFunc(steps, func(s rig.Step) bool { return s.Reads() && (s.Method != "ContainerStatus" || s.N > 0) })
	if len(steps) < 11 {
		t.Fatalf("only %v", steps)
	}
	for _, at := range steps {
		for _, variant := range []struct{ after, again bool }{{false, true}, {true, true}, {true, false}} {
			after, again := variant.after, variant.again
			t.Run(fmt.Sprintf("%s/%d/after=%v,again=%v", at.Method, at.N, after, again), func(t *testing.T) {
				t.Parallel()
				r, hooks := crashRig(t)
				r.KillAt(at, after, faultPod)
				r.NoLockHeld()
				if again {
					if result := r.Apply(faultPod); result.Err != nil {
						t.Fatalf("the next apply: %v", result.Err)
					}
					r.OneReadySandbox()
					r.MountsAreSetUp()
					if hooks.Load() == 0 {
						t.Error("the hook was not run")
					}
					r.MustApply(faultPod, run.OutcomeUnchanged)
				}
				r.MustDelete()
			})
		}
	}
}

// TestDeleteKilled kills podrun at every call of a delete that changes something. The next
// delete must remove the remaining objects.
func TestDeleteKilled(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig.Host) {
		r.MustApply(faultPod, run.OutcomeCreated)
		r.Runtime.ForgetCalls()
		r.MustDelete()
	})
	for _, at := range steps {
		if at.Reads() {
			continue
		}
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%d/after=%v", at.Method, at.N, after), func(t *testing.T) {
				t.Parallel()
				r, _ := crashRig(t)
				r.MustApply(faultPod, run.OutcomeCreated)
				r.Runtime.ForgetCalls()
				r.KillAt(at, after, "")
				r.NoLockHeld()
				r.MustDelete()
			})
		}
	}
}

// TestReservationOfKilled checks that the next podrun process counts a reservation that a killed
// process left behind. If the next process fails before it has started a container, it must remove
// the reservation.
func TestReservationOfKilled(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/absent:1}]")
	r.KillAt(rig.Step{Method: "RunPodSandbox"}, false, text)
	if known, err := lookup.Find(t.Context(), r.Engine(), lookup.Selector{}); err != nil || len(known) != 1 {
		t.Fatalf("%v, %v", known, err)
	}
	rig.WantErr(t, r.Apply(text).Err, problem.Image, "registry.example/absent:1")
	r.NothingLeft()
}

// TestSweep covers a podrun process that is killed before it has written the checkpoint. It leaves
// a directory behind that no other command would find.
func TestSweep(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	kept := r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	made := func(uid string, files ...string) string {
		dir := string(r.Layout().Pod(uid))
		for _, d := range []string{"volumes", "plugins", "containers"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	half := []string{made("u-empty"), made("u-half", ".pod.yaml.123")}
	full := []string{made("u-data", "volumes/precious"), made("u-other", "events.jsonl"), string(r.Layout().Pod(kept.ID.UID))}
	check := func() {
		t.Helper()
		for _, dir := range half {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s: %v", dir, err)
			}
		}
		for _, dir := range full {
			if _, err := os.Stat(dir); err != nil {
				t.Error(err)
			}
		}
	}
	r.MustApply(rig.Web("Always"), run.OutcomeUnchanged)
	check()
	made("u-empty")
	r.Delete(run.DeleteOptions{Found: true}, "none")
	if _, err := os.Stat(half[0]); err != nil {
		t.Errorf("a command on found pods read the others: %v", err)
	}
	r.Delete(run.DeleteOptions{}, "none")
	check()
	r.Delete(run.DeleteOptions{})
}

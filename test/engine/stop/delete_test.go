package stop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// stopsOf lists the calls of StopContainer with the name of the container, the time since
// begun, and the timeout.
func stopsOf(rt *critest.Runtime, begun time.Time) []string {
	var out []string
	for _, c := range rt.Calls() {
		if req, ok := c.Request.(*runtimeapi.StopContainerRequest); ok {
			out = append(out, c.Subject+" at "+c.Start.Sub(begun).Round(time.Second).String()+" for "+(time.Duration(req.GetTimeout())*time.Second).String())
		}
	}
	return out
}

func TestDeleteGrace(t *testing.T) {
	t.Parallel()
	seconds := func(n int) *time.Duration { d := time.Duration(n) * time.Second; return &d }
	for _, tc := range []struct {
		name    string
		spec    []string
		scripts map[string]critest.Behavior
		grace   *time.Duration
		// expected calls, in order; calls at the same time are sorted
		want []string
		took time.Duration
	}{
		{
			name: "a container that ends at once",
			spec: []string{"terminationGracePeriodSeconds: 20", "containers: [{name: app, image: registry.example/app:1}]"},
			want: []string{"app at 0s for 20s"},
		},
		{
			name:    "the command's grace period",
			spec:    []string{"terminationGracePeriodSeconds: 20", "containers: [{name: app, image: registry.example/app:1}]"},
			scripts: map[string]critest.Behavior{"app": {Forever: true, IgnoreTERM: true}},
			grace:   seconds(3), want: []string{"app at 0s for 3s"}, took: 3 * time.Second,
		},
		{
			name:    "no grace",
			spec:    []string{"containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: 5}}}}]"},
			scripts: map[string]critest.Behavior{"app": {Forever: true, IgnoreTERM: true}},
			grace:   seconds(0), want: []string{"app at 0s for 0s"},
		},
		{
			name:    "a preStop hook counts in the grace period",
			spec:    []string{"terminationGracePeriodSeconds: 20", "containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: 5}}}}]"},
			scripts: map[string]critest.Behavior{"app": {Forever: true, IgnoreTERM: true}},
			want:    []string{"app at 5s for 15s"}, took: 20 * time.Second,
		},
		{
			name:    "a preStop hook that takes too long",
			spec:    []string{"terminationGracePeriodSeconds: 20", "containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: [slow]}}}}]"},
			scripts: map[string]critest.Behavior{"app": {Forever: true, IgnoreTERM: true}},
			want:    []string{"app at 20s for 2s"}, took: 22 * time.Second,
		},
		{
			name: "apps side by side, then the sidecars in reverse",
			spec: []string{"terminationGracePeriodSeconds: 20",
				"initContainers:", "- {name: s1, image: registry.example/web:1, restartPolicy: Always}", "- {name: s2, image: registry.example/web:1, restartPolicy: Always}",
				"containers:", "- {name: a, image: registry.example/app:1}", "- {name: b, image: registry.example/app:1}"},
			scripts: map[string]critest.Behavior{
				"a": {Forever: true, TERMAfter: 4 * time.Second}, "b": {Forever: true, TERMAfter: 6 * time.Second},
				"s2": {Forever: true, TERMAfter: 3 * time.Second}, "s1": {Forever: true, TERMAfter: time.Second},
			},
			want: []string{"a at 0s for 20s", "b at 0s for 20s", "s2 at 6s for 14s", "s1 at 9s for 11s"}, took: 10 * time.Second,
		},
		{
			name: "a sidecar's preStop hook runs from the start, as a kubelet has it",
			spec: []string{"terminationGracePeriodSeconds: 30",
				"initContainers:", "- {name: s1, image: registry.example/web:1, restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 15}}}}",
				"containers:", "- {name: a, image: registry.example/app:1}"},
			scripts: map[string]critest.Behavior{"a": {Forever: true, TERMAfter: 10 * time.Second}},
			want:    []string{"a at 0s for 30s", "s1 at 15s for 15s"}, took: 15 * time.Second,
		},
		{
			name: "an init container that still runs goes with the apps",
			spec: []string{"terminationGracePeriodSeconds: 20",
				"initContainers:", "- {name: s1, image: registry.example/web:1, restartPolicy: Always}", "- {name: setup, image: registry.example/setup:1}",
				"containers:", "- {name: a, image: registry.example/app:1}"},
			scripts: map[string]critest.Behavior{"setup": {Forever: true, TERMAfter: 4 * time.Second}},
			want:    []string{"setup at 0s for 20s", "s1 at 4s for 16s"}, took: 4 * time.Second,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				for name, b := range tc.scripts {
					r.Runtime.Script(name, b)
				}
				r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 100 * time.Hour} })
				_, unfinished := tc.scripts["setup"]
				if result := r.ApplyWithin(t.Context(), rig.PodText("web", "Always", tc.spec...), time.Minute); (result.Err != nil) != unfinished {
					t.Fatal(result.Err)
				}
				begun := time.Now()
				r.Runtime.ForgetCalls()
				for _, result := range r.Delete(run.DeleteOptions{Grace: tc.grace}) {
					if result.Err != nil || result.Outcome != run.OutcomeDeleted {
						t.Errorf("%s: %s, %v", result.ID, result.Outcome, result.Err)
					}
				}
				if took := time.Since(begun); took < tc.took || took > tc.took+100*time.Millisecond {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				stops := stopsOf(r.Runtime, begun)
				slices.SortStableFunc(stops, func(a, b string) int {
					if x, y := strings.Fields(a), strings.Fields(b); x[2] == y[2] {
						return strings.Compare(x[0], y[0])
					}
					return 0
				})
				if !slices.Equal(stops, tc.want) {
					t.Errorf("stops\n got %q\nwant %q", stops, tc.want)
				}
				r.NothingLeft()
				if _, err := os.Lstat(r.Layout().Locks().Pod(identity.Pod{Namespace: "default", Name: "web"})); err == nil {
					t.Error("the file of the pod's lock is left")
				}
			})
		})
	}
}

func TestDeleteTellsOfFailedPreStop(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 3} })
	r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: [x]}}}}]"), run.OutcomeCreated)
	r.MustDelete()
	if !r.Emitted("FailedPreStopHook app", "PreStopHook failed") || !r.Emitted("Killing app", "Stopping container app") {
		t.Errorf("events %q", r.Reasons())
	}
}

// TestDeleteStopsAgainForLong covers a busy machine, where containerd detects the exit of a shim
// only after some seconds.
func TestDeleteStopsAgainForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		clear := r.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before})
		time.AfterFunc(12*time.Second, clear)
		r.MustDelete()
		clear = r.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before})
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		begun := time.Now()
		results := r.Delete(run.DeleteOptions{}, "web")
		if took := time.Since(begun); len(results) != 1 || results[0].Err == nil || took < 15*time.Second || took > 20*time.Second {
			t.Errorf("%v after %s", results, took)
		}
		clear()
		r.MustDelete()
	})
}

func TestDeleteTwice(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	e := r.Engine()
	known, err := lookup.Find(t.Context(), e, lookup.Selector{})
	if err != nil || len(known) != 1 {
		t.Fatalf("%v, %v", known, err)
	}
	// Each delete uses the same list of found pods, like two concurrent commands.
	for range 3 {
		results, err := run.DeletePods(t.Context(), e, known, run.DeleteOptions{})
		if err != nil || results[0].Err != nil {
			t.Fatalf("%v, %v", results, err)
		}
		r.NothingLeft()
	}
	if got := r.Delete(run.DeleteOptions{}, "web"); len(got) != 0 {
		t.Errorf("a pod that does not exist: %v", got)
	}
}

// TestDeleteByNameRemovesAStaleReservation covers a podrun that was killed while it replaced the pod.
func TestDeleteByNameRemovesAStaleReservation(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	stale := filepath.Join(r.Layout().Reservations(), "1234")
	if err := errors.Join(os.MkdirAll(filepath.Dir(stale), 0o700), os.WriteFile(stale, []byte("[]"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.Delete(run.DeleteOptions{Found: true}, "web")
	if _, err := os.Lstat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reservation remains: %v", err)
	}
}

func TestDeleteKeepsLogs(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	result := r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.Delete(run.DeleteOptions{KeepLogs: true})
	if _, err := os.Stat(r.Layout().Logs(result.ID) + "/app/0.log"); err != nil {
		t.Error(err)
	}
	if left := r.Runtime.Leaked(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestDeleteWithoutDirectory checks that the runtime's data suffices for a delete, including
// the hook and the grace period.
func TestDeleteWithoutDirectory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		result := r.MustApply(rig.PodText("web", "Always", "terminationGracePeriodSeconds: 12",
			"containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: 5}}}}]"), run.OutcomeCreated)
		if err := os.RemoveAll(string(r.Layout().Pod(result.ID.UID))); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		r.Runtime.ForgetCalls()
		r.MustDelete()
		if got := stopsOf(r.Runtime, begun); !slices.Equal(got, []string{"app at 5s for 7s"}) {
			t.Errorf("stops %q", got)
		}
	})
}

// TestDeleteWithoutSandbox covers a pod whose sandbox another program has removed.
func TestDeleteWithoutSandbox(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	if err := r.Runtime.Client().RemovePodSandbox(t.Context(), r.Runtime.Sandboxes()[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := r.Delete(run.DeleteOptions{}); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	r.NothingLeft()
}

// TestDeleteAfterReboot checks that podrun also stops stale sandboxes, which releases their
// networks.
func TestDeleteAfterReboot(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.Runtime.Restart()
	r.MustApply(rig.Web("Always"), run.OutcomeRestarted)
	r.Runtime.Restart()
	r.Runtime.ForgetCalls()
	r.MustDelete()
	rig.WantChanges(t, r.Runtime, "StopPodSandbox", "StopPodSandbox", "RemovePodSandbox", "RemovePodSandbox")
}

func TestDeleteRefusesStrangers(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u-1"}
	rig.CreateForeignPod(t, r.Runtime, id, true)
	r.Runtime.ForgetCalls()
	results, err := run.DeletePods(t.Context(), r.Engine(), []run.Known{{ID: id}}, run.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rig.WantErr(t, results[0].Err, problem.Refused, "pod default/web", "was not created by podrun")
	rig.WantChanges(t, r.Runtime)
}

func TestDeleteTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		r.MustApply(rig.PodText("web", "Always", "terminationGracePeriodSeconds: 3600", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		results := r.Delete(run.DeleteOptions{Timeout: time.Minute})
		rig.WantErr(t, results[0].Err, problem.Deadline, "pod default/web", "container app", "has not exited yet", "timed out after 1m0s")
		grace := time.Second
		r.NoError(r.Delete(run.DeleteOptions{Grace: &grace}))
		r.NothingLeft()
	})
}

// TestDeleteAtOnceRunsNoHook checks that podrun, like the kubelet, does not run a preStop hook if
// the grace period is 0.
func TestDeleteAtOnceRunsNoHook(t *testing.T) {
	t.Parallel()
	for grace, hooks := range map[int64]int{0: 0, 1: 1} {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
		r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: ['true']}}}}]"), run.OutcomeCreated)
		d := time.Duration(grace) * time.Second
		r.NoError(r.Delete(run.DeleteOptions{Grace: &d}))
		calls := slices.DeleteFunc(r.Runtime.Changes(), func(c string) bool { return c != "ExecSync app" })
		if len(calls) != hooks {
			t.Errorf("a grace period of %s: %d hooks, want %d", d, len(calls), hooks)
		}
		if r.Emitted("FailedPreStopHook app", "") {
			t.Errorf("a grace period of %s: the hook failed", d)
		}
		r.NothingLeft()
	}
}

// TestWaitTimesOutAtOnce checks that the deadline also applies while a wait is still reading the
// pod.
func TestWaitTimesOutAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		e := r.Engine()
		known, err := lookup.Find(t.Context(), e, lookup.Selector{})
		if err != nil {
			t.Fatal(err)
		}
		clear := r.Runtime.Fault("ListContainers", critest.Fault{When: critest.Hang})
		result := run.Wait(t.Context(), e, known[0], run.WaitOptions{For: lifecycle.GoalCompleted, Timeout: time.Second})
		rig.WantErr(t, result.Err, problem.Deadline, "timed out after 1s")
		clear()
		r.MustDelete()
	})
}

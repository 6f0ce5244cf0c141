package engine

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// version returns a pod with one container, with the given image and argument. A change of the
// image is an update in place; a change of the argument is a replacement.
func version(image, arg string) string {
	return podText("web", "Always", "terminationGracePeriodSeconds: 20",
		"containers: [{name: app, image: registry.example/"+image+", args: ["+arg+"]}]")
}

func TestReplaceHasItsImageFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{Forever: true, TERMAfter: 3 * time.Second})
		first := r.mustApply(version("app:1", "one"), run.OutcomeCreated)
		r.rt.AddRemote(critest.Image{Name: "registry.example/new:1", PullDelay: 5 * time.Second})
		r.rt.ForgetCalls()
		begun := time.Now()
		second := r.mustApply(version("new:1", "two"), run.OutcomeReplaced)
		if first.ID.UID == second.ID.UID {
			t.Error("the pod and its replacement have the same UID")
		}
		if !slices.Contains(second.What, "spec.containers[0].image") || !slices.Contains(second.What, "spec.containers[0].args[0]") {
			t.Errorf("what: %q", second.What)
		}
		stop := callTo(t, r.rt, "StopContainer app")
		if at := stop.Start.Sub(begun); at < 5*time.Second || at > 6*time.Second {
			t.Errorf("the old one was stopped after %s", at)
		}
		wantChanges(t, r.rt, "PullImage registry.example/new:1", "StopContainer app", "StopPodSandbox", "RemovePodSandbox",
			"RunPodSandbox", "CreateContainer app", "StartContainer app")
		if _, err := os.Stat(r.layout().Pod(first.ID.UID)); !os.IsNotExist(err) {
			t.Errorf("the old one's directory: %v", err)
		}
		if left := cgroupsOf(r.settings.CgroupRoot + "/kubepods/besteffort/pod" + first.ID.UID); len(left) > 0 {
			t.Errorf("the old one's groups: %v", left)
		}
		r.mustApply(version("new:1", "two"), run.OutcomeUnchanged)
		r.mustDelete()
	})
}

// callTo returns the first call of the given method.
func callTo(t testing.TB, rt *critest.Runtime, name string) critest.Call {
	t.Helper()
	for _, c := range rt.Calls() {
		if c.Name() == name {
			return c
		}
	}
	t.Fatalf("no %s among %q", name, rt.Changes())
	return critest.Call{}
}

func TestUpdateInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.mustApply(version("app:1", "one"), run.OutcomeCreated)
	r.rt.ForgetCalls()
	second := r.mustApply(version("app:2", "one"), run.OutcomeUpdated)
	if first.ID.UID != second.ID.UID || !slices.Equal(second.What, []string{"spec.containers[0].image"}) {
		t.Errorf("uid %s, then %s; what: %q", first.ID.UID, second.ID.UID, second.What)
	}
	wantChanges(t, r.rt, "StopContainer app", "CreateContainer app", "StartContainer app")
	if !r.emitted("Killing app", "Container app definition changed, will be restarted") {
		t.Errorf("events %q", r.reasons())
	}
	r.mustApply(version("app:2", "one"), run.OutcomeUnchanged)
	wantChanges(t, r.rt)
	r.mustDelete()
}

// TestUpdateCutShort covers an interrupted update: the checkpoint contains the new version, and the
// container has the old one. The next apply of the same file must complete the update.
func TestUpdateCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(version("app:1", "one"), run.OutcomeCreated)
		clear := r.rt.Fault("StopContainer", critest.Fault{When: critest.Before})
		wantErr(t, r.apply(version("app:2", "one")).Err, problem.Runtime, "pod default/web", "container app", "fault injected")
		clear()
		r.rt.ForgetCalls()
		r.mustApply(version("app:2", "one"), run.OutcomeRestarted)
		wantChanges(t, r.rt, "StopContainer app", "CreateContainer app", "StartContainer app")
		r.mustDelete()
	})
}

// TestTypoCostsNoDowntime checks that the old version continues to run if the new image is not
// available.
func TestTypoCostsNoDowntime(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"update": version("tpyo:1", "one"), "replacement": version("tpyo:1", "two")} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			old := version("app:1", "one")
			r.mustApply(old, run.OutcomeCreated)
			before := r.residue()
			r.rt.ForgetCalls()
			result := r.apply(text)
			wantErr(t, result.Err, problem.Image, "container app", "registry.example/tpyo:1")
			wantChanges(t, r.rt, "PullImage registry.example/tpyo:1")
			if after := r.residue(); !slices.Equal(before, after) {
				t.Errorf("\nbefore %q\n after %q", before, after)
			}
			r.mustApply(old, run.OutcomeUnchanged)
			wantChanges(t, r.rt)
			r.mustDelete()
		})
	}
}

// TestReplaceFails covers a replacement that fails after podrun has removed the old pod. No
// leftovers of the new pod may remain, and the next apply must create the pod.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(version("app:1", "one"), run.OutcomeCreated)
	clear := r.rt.Fault("RunPodSandbox", critest.Fault{When: critest.Before})
	wantErr(t, r.apply(version("app:1", "two")).Err, problem.Runtime, "pod default/web", "create sandbox")
	clear()
	r.nothingLeft()
	r.mustApply(version("app:1", "two"), run.OutcomeCreated)
	r.mustDelete()
}

// TestReplaceRefused checks that podrun changes nothing, not even other pods of the same command,
// if it refuses a pod. (podman leaves the earlier pods running.)
func TestReplaceRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(version("app:1", "one"), run.OutcomeCreated)
	r.rt.ForgetCalls()
	bad := strings.Replace(version("app:1", "two"), "restartPolicy", "nodeSelector: {disk: ssd}\n  restartPolicy", 1)
	_, err := r.applyAll(t.Context(), bad, podText("db", "Always", "containers: [{name: app, image: registry.example/db:1}]"))
	wantErr(t, err, problem.Refused, "Pod default/web")
	wantChanges(t, r.rt)
	r.mustApply(version("app:1", "one"), run.OutcomeUnchanged)
	r.mustDelete()
}

// TestReplaceCountsTheOldAsGone checks that admission treats the resources and ports of the old pod
// as free.
func TestReplaceCountsTheOldAsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := func(arg string) string {
		return podText("web", "Always", "containers:", "- name: app", "  image: registry.example/app:1", "  args: ["+arg+"]",
			"  resources: {requests: {cpu: 900m}}", "  ports: [{containerPort: 80, hostPort: 18998}]")
	}
	r.mustApply(text("one"), run.OutcomeCreated)
	r.mustApply(text("two"), run.OutcomeReplaced)
	other := strings.Replace(text("one"), "name: web", "name: other", 1)
	_, err := r.applyAll(t.Context(), other)
	wantErr(t, err, problem.Refused, "18998")
	r.mustDelete()
}

// TestReplaceSameUID covers a UID in the manifest, which the new pod keeps. A rollback by UID
// must distinguish the old pod from the new one.
func TestReplaceSameUID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := func(arg string) string {
		return strings.Replace(version("app:1", arg), "{name: web}", "{name: web, uid: u-1}", 1)
	}
	r.mustApply(text("one"), run.OutcomeCreated)
	r.rt.ForgetCalls()
	r.mustApply(text("two"), run.OutcomeReplaced)
	wantChanges(t, r.rt, "StopContainer app", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app")
	r.mustApply(text("two"), run.OutcomeUnchanged)
	r.mustDelete()
}

// TestReplaceRunsTheOldHook checks that a replacement uses the hook and the grace period of the old
// pod.
func TestReplaceRunsTheOldHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		text := func(grace, sleep string) string {
			return podText("web", "Always", "terminationGracePeriodSeconds: "+grace,
				"containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: "+sleep+"}}}}]")
		}
		r.mustApply(text("20", "5"), run.OutcomeCreated)
		begun := time.Now()
		r.mustApply(text("7", "1"), run.OutcomeReplaced)
		if took := time.Since(begun); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("took %s", took)
		}
		r.mustDelete()
	})
}

package update

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
	"github.com/podrun/podrun/test/engine/rig"
)

// version returns a pod with one container, with the given image and argument. A change of the
// image is an update in place; a change of the argument is a replacement.
func version(image, arg string) string {
	return rig.PodText("web", "Always", "terminationGracePeriodSeconds: 20",
		"containers: [{name: app, image: registry.example/"+image+", args: ["+arg+"]}]")
}

func TestReplaceHasItsImageFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, TERMAfter: 3 * time.Second})
		first := r.MustApply(version("app:1", "one"), run.OutcomeCreated)
		r.Runtime.AddRemote(critest.Image{Name: "registry.example/new:1", PullDelay: 5 * time.Second})
		r.Runtime.ForgetCalls()
		begun := time.Now()
		second := r.MustApply(version("new:1", "two"), run.OutcomeReplaced)
		if first.ID.UID == second.ID.UID {
			t.Error("the pod and its replacement have the same UID")
		}
		if !slices.Contains(second.What, "spec.containers[0].image") || !slices.Contains(second.What, "spec.containers[0].args[0]") {
			t.Errorf("what: %q", second.What)
		}
		stop := callTo(t, r.Runtime, "StopContainer app")
		if at := stop.Start.Sub(begun); at < 5*time.Second || at > 6*time.Second {
			t.Errorf("the old one was stopped after %s", at)
		}
		rig.WantChanges(t, r.Runtime, "PullImage registry.example/new:1", "StopContainer app", "StopPodSandbox", "RemovePodSandbox",
			"RunPodSandbox", "CreateContainer app", "StartContainer app")
		if _, err := os.Stat(string(r.Layout().Pod(first.ID.UID))); !os.IsNotExist(err) {
			t.Errorf("the old one's directory: %v", err)
		}
		if left := rig.CgroupsOf(r.Settings.CgroupRoot + "/kubepods/besteffort/pod" + first.ID.UID); len(left) > 0 {
			t.Errorf("the old one's groups: %v", left)
		}
		r.MustApply(version("new:1", "two"), run.OutcomeUnchanged)
		r.MustDelete()
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
	r := rig.New(t)
	first := r.MustApply(version("app:1", "one"), run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	second := r.MustApply(version("app:2", "one"), run.OutcomeUpdated)
	if first.ID.UID != second.ID.UID || !slices.Equal(second.What, []string{"spec.containers[0].image"}) {
		t.Errorf("uid %s, then %s; what: %q", first.ID.UID, second.ID.UID, second.What)
	}
	rig.WantChanges(t, r.Runtime, "StopContainer app", "CreateContainer app", "StartContainer app")
	if !r.Emitted("Killing app", "Container app definition changed, will be restarted") {
		t.Errorf("events %q", r.Reasons())
	}
	r.MustApply(version("app:2", "one"), run.OutcomeUnchanged)
	rig.WantChanges(t, r.Runtime)
	r.MustDelete()
}

// TestUpdateCutShort covers an interrupted update: the checkpoint contains the new version, and the
// container has the old one. The next apply of the same file must complete the update.
func TestUpdateCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(version("app:1", "one"), run.OutcomeCreated)
		clear := r.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before})
		rig.WantErr(t, r.Apply(version("app:2", "one")).Err, problem.Runtime, "pod default/web", "container app", "fault injected")
		clear()
		r.Runtime.ForgetCalls()
		r.MustApply(version("app:2", "one"), run.OutcomeRestarted)
		rig.WantChanges(t, r.Runtime, "StopContainer app", "CreateContainer app", "StartContainer app")
		r.MustDelete()
	})
}

// TestTypoCostsNoDowntime checks that the old version continues to run if the new image is not
// available.
func TestTypoCostsNoDowntime(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"update": version("tpyo:1", "one"), "replacement": version("tpyo:1", "two")} {
		t.Run(name, func(t *testing.T) {
			r := rig.New(t)
			old := version("app:1", "one")
			r.MustApply(old, run.OutcomeCreated)
			before := r.Residue()
			r.Runtime.ForgetCalls()
			result := r.Apply(text)
			rig.WantErr(t, result.Err, problem.Image, "container app", "registry.example/tpyo:1")
			rig.WantChanges(t, r.Runtime, "PullImage registry.example/tpyo:1")
			if after := r.Residue(); !slices.Equal(before, after) {
				t.Errorf("\nbefore %q\n after %q", before, after)
			}
			r.MustApply(old, run.OutcomeUnchanged)
			rig.WantChanges(t, r.Runtime)
			r.MustDelete()
		})
	}
}

// TestReplaceFails covers a replacement that fails after podrun has removed the old pod. No
// leftovers of the new pod may remain, and the next apply must create the pod.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(version("app:1", "one"), run.OutcomeCreated)
	clear := r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Before})
	rig.WantErr(t, r.Apply(version("app:1", "two")).Err, problem.Runtime, "pod default/web", "create sandbox")
	clear()
	r.NothingLeft()
	r.MustApply(version("app:1", "two"), run.OutcomeCreated)
	r.MustDelete()
}

// TestReplaceRefused checks that podrun changes nothing, not even other pods of the same command,
// if it refuses a pod. (podman leaves the earlier pods running.)
func TestReplaceRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(version("app:1", "one"), run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	bad := strings.Replace(version("app:1", "two"), "restartPolicy", "nodeSelector: {disk: ssd}\n  restartPolicy", 1)
	_, err := r.ApplyAll(t.Context(), bad, rig.PodText("db", "Always", "containers: [{name: app, image: registry.example/db:1}]"))
	rig.WantErr(t, err, problem.Refused, "Pod default/web")
	rig.WantChanges(t, r.Runtime)
	r.MustApply(version("app:1", "one"), run.OutcomeUnchanged)
	r.MustDelete()
}

// TestReplaceCountsTheOldAsGone checks that admission treats the resources and ports of the old pod
// as free.
func TestReplaceCountsTheOldAsGone(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := func(arg string) string {
		return rig.PodText("web", "Always", "containers:", "- name: app", "  image: registry.example/app:1", "  args: ["+arg+"]",
			"  resources: {requests: {cpu: 900m}}", "  ports: [{containerPort: 80, hostPort: 18998}]")
	}
	r.MustApply(text("one"), run.OutcomeCreated)
	r.MustApply(text("two"), run.OutcomeReplaced)
	other := strings.Replace(text("one"), "name: web", "name: other", 1)
	_, err := r.ApplyAll(t.Context(), other)
	rig.WantErr(t, err, problem.Refused, "18998")
	r.MustDelete()
}

// TestReplaceSameUID covers a UID in the manifest, which the new pod keeps. A rollback by UID
// must distinguish the old pod from the new one.
func TestReplaceSameUID(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := func(arg string) string {
		return strings.Replace(version("app:1", arg), "{name: web}", "{name: web, uid: u-1}", 1)
	}
	r.MustApply(text("one"), run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	r.MustApply(text("two"), run.OutcomeReplaced)
	rig.WantChanges(t, r.Runtime, "StopContainer app", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox", "CreateContainer app", "StartContainer app")
	r.MustApply(text("two"), run.OutcomeUnchanged)
	r.MustDelete()
}

// TestReplaceRunsTheOldHook checks that a replacement uses the hook and the grace period of the old
// pod.
func TestReplaceRunsTheOldHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		text := func(grace, sleep string) string {
			return rig.PodText("web", "Always", "terminationGracePeriodSeconds: "+grace,
				"containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {sleep: {seconds: "+sleep+"}}}}]")
		}
		r.MustApply(text("20", "5"), run.OutcomeCreated)
		begun := time.Now()
		r.MustApply(text("7", "1"), run.OutcomeReplaced)
		if took := time.Since(begun); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("took %s", took)
		}
		r.MustDelete()
	})
}

package start

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestApplyIgnoresOldSandbox covers an older sandbox whose containers have completed or were
// only created. Every init container must run again in the current sandbox (k/k#140309).
func TestApplyIgnoresOldSandbox(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.Script("setup", critest.Behavior{})
	r.Runtime.Script("more", critest.Behavior{})
	text := rig.PodText("web", "Always", "initContainers:", "- {name: setup, image: registry.example/setup:1}", "- {name: more, image: registry.example/setup:2}",
		"containers: [{name: app, image: registry.example/app:1}]")
	// The host loses power immediately before the app container is started.
	stop := r.Runtime.Fault("StartContainer", critest.Fault{When: critest.Before, Skip: 2})
	if r.Apply(text).Err == nil {
		t.Fatal("no error")
	}
	stop()
	r.Runtime.Restart()
	r.Runtime.ForgetCalls()
	if result := r.Apply(text); result.Err != nil {
		t.Fatal(result.Err)
	}
	rig.WantChanges(t, r.Runtime, "StopPodSandbox", "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "CreateContainer more", "StartContainer more",
		"RemoveContainer app", "RemovePodSandbox", "CreateContainer app", "StartContainer app")
	r.MustDelete()
}

// TestApplyAfterReboot checks that podrun recreates the sandbox with the next attempt number.
func TestApplyAfterReboot(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := withInitOf(r, "Always")
	r.MustApply(text, run.OutcomeCreated)
	r.Runtime.Restart()
	r.Runtime.ForgetCalls()
	result := r.MustApply(text, run.OutcomeRestarted)
	if result.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", result.Status.Phase)
	}
	boxes := r.Runtime.Sandboxes()
	if len(boxes) != 2 || boxes[1].Config.GetMetadata().GetAttempt() != 1 || boxes[0].Ready || !boxes[1].Ready {
		t.Errorf("%+v", boxes)
	}
	if !r.Emitted("SandboxChanged", "re-created") {
		t.Errorf("events %q", r.Reasons())
	}
	// podrun first stops the stale sandbox. This releases its address if the runtime's network
	// state survived the reboot (containerd/cri#948).
	rig.WantChanges(t, r.Runtime, "StopPodSandbox", "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "CreateContainer app", "StartContainer app")
	r.MustApply(text, run.OutcomeUnchanged)
	r.MustDelete()
}

func TestApplyAfterRebootNever(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Never"), run.OutcomeCreated)
	r.Runtime.Restart()
	r.Runtime.ForgetCalls()
	rig.WantErr(t, r.Apply(rig.Web("Never")).Err, problem.Failed, "container app exited with 255")
	if slices.Contains(r.Runtime.Changes(), "RunPodSandbox") {
		t.Error("a pod that must not be restarted was restarted")
	}
	r.MustDelete()
}

// TestApplyKeepsUnmanagedPods covers a sandbox that has the pod's UID but was not created by
// podrun, for example because a kubelet's pod was exported with its UID. podrun must not change
// the sandbox.
func TestApplyKeepsUnmanagedPods(t *testing.T) {
	t.Parallel()
	for _, ready := range []bool{true, false} {
		for _, name := range []string{"web", "other"} {
			t.Run(fmt.Sprintf("%s, ready %v", name, ready), func(t *testing.T) {
				r := rig.New(t)
				rig.CreateForeignPod(t, r.Runtime, identity.Pod{Namespace: "default", Name: name, UID: "u-1"}, ready)
				text := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u-1}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"
				r.Runtime.ForgetCalls()
				result := r.Apply(text)
				rig.WantErr(t, result.Err, problem.Refused, "default/"+name)
				rig.WantChanges(t, r.Runtime)
				for _, res := range r.Delete(run.DeleteOptions{}) {
					t.Errorf("delete found %v", res.ID)
				}
				if _, err := os.Stat(string(r.Layout().Pod("u-1"))); !os.IsNotExist(err) {
					t.Errorf("its directory: %v", err)
				}
				if n := len(r.Runtime.Sandboxes()); n != 1 {
					t.Errorf("%d sandboxes", n)
				}
			})
		}
	}
}

package engine

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// TestApplyIgnoresOldSandbox covers an older sandbox whose containers have completed or were
// only created. Every init container must run again in the current sandbox (k/k#140309).
func TestApplyIgnoresOldSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rt.Script("setup", critest.Behavior{})
	r.rt.Script("more", critest.Behavior{})
	text := podText("web", "Always", "initContainers:", "- {name: setup, image: registry.example/setup:1}", "- {name: more, image: registry.example/setup:2}",
		"containers: [{name: app, image: registry.example/app:1}]")
	// The host loses power immediately before the app container is started.
	stop := r.rt.Fault("StartContainer", critest.Fault{When: critest.Before, Skip: 2})
	if r.apply(text).Err == nil {
		t.Fatal("no error")
	}
	stop()
	r.rt.Restart()
	r.rt.ForgetCalls()
	if result := r.apply(text); result.Err != nil {
		t.Fatal(result.Err)
	}
	wantChanges(t, r.rt, "StopPodSandbox", "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "CreateContainer more", "StartContainer more",
		"RemoveContainer app", "RemovePodSandbox", "CreateContainer app", "StartContainer app")
	r.mustDelete()
}

// TestApplyAfterReboot checks that podrun recreates the sandbox with the next attempt number.
func TestApplyAfterReboot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := withInitOf(r, "Always")
	r.mustApply(text, run.OutcomeCreated)
	r.rt.Restart()
	r.rt.ForgetCalls()
	result := r.mustApply(text, run.OutcomeRestarted)
	if result.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", result.Status.Phase)
	}
	boxes := r.rt.Sandboxes()
	if len(boxes) != 2 || boxes[1].Config.GetMetadata().GetAttempt() != 1 || boxes[0].Ready || !boxes[1].Ready {
		t.Errorf("%+v", boxes)
	}
	if !r.emitted("SandboxChanged", "re-created") {
		t.Errorf("events %q", r.reasons())
	}
	// podrun first stops the stale sandbox. This releases its address if the runtime's network
	// state survived the reboot (containerd/cri#948).
	wantChanges(t, r.rt, "StopPodSandbox", "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "CreateContainer app", "StartContainer app")
	r.mustApply(text, run.OutcomeUnchanged)
	r.mustDelete()
}

func TestApplyAfterRebootNever(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(one("Never"), run.OutcomeCreated)
	r.rt.Restart()
	r.rt.ForgetCalls()
	wantErr(t, r.apply(one("Never")).Err, problem.Failed, "container app exited with 255")
	if slices.Contains(r.rt.Changes(), "RunPodSandbox") {
		t.Error("a pod that must not be restarted was restarted")
	}
	r.mustDelete()
}

// TestApplyKeepsUnmanagedPods covers a sandbox that has the pod's UID but was not created by
// podrun, for example because a kubelet's pod was exported with its UID. podrun must not change
// the sandbox.
func TestApplyKeepsUnmanagedPods(t *testing.T) {
	t.Parallel()
	for _, ready := range []bool{true, false} {
		for _, name := range []string{"web", "other"} {
			t.Run(fmt.Sprintf("%s, ready %v", name, ready), func(t *testing.T) {
				r := newRig(t)
				createForeignPod(t, r.rt, identity.Pod{Namespace: "default", Name: name, UID: "u-1"}, ready)
				text := "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u-1}\nspec: {containers: [{name: app, image: registry.example/app:1}]}\n"
				r.rt.ForgetCalls()
				result := r.apply(text)
				wantErr(t, result.Err, problem.Refused, "default/"+name)
				wantChanges(t, r.rt)
				for _, res := range r.delete(run.DeleteOptions{}) {
					t.Errorf("delete found %v", res.ID)
				}
				if _, err := os.Stat(r.layout().Pod("u-1")); !os.IsNotExist(err) {
					t.Errorf("its directory: %v", err)
				}
				if n := len(r.rt.Sandboxes()); n != 1 {
					t.Errorf("%d sandboxes", n)
				}
			})
		}
	}
}

// createForeignPod creates a pod that podrun does not manage, with a running container.
func createForeignPod(t testing.TB, rt *critest.Runtime, id identity.Pod, ready bool) {
	t.Helper()
	c := rt.Client()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: id.Name, Namespace: id.Namespace, Uid: id.UID}, Labels: id.Labels(),
	}
	box, err := c.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	labels := id.Labels()
	labels[identity.LabelContainerName] = "app"
	con, err := c.CreateContainer(t.Context(), box, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Labels: labels, Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1"},
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), con); err != nil {
		t.Fatal(err)
	}
	if !ready {
		if err := c.StopPodSandbox(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
}

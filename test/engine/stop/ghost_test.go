package stop

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestDeleteOfAContainerWithoutARecord checks that podrun deletes a container with its pod if
// another program has removed the container's record from containerd. If containerd's own service
// for records is not available, delete and gc must fail and report what remains, and get must show
// the pod once.
func TestDeleteOfAContainerWithoutARecord(t *testing.T) {
	t.Parallel()
	for name, served := range map[string]bool{"containerd": true, "without its services": false} {
		t.Run(name, func(t *testing.T) {
			r := rig.New(t)
			if served {
				r.Client = r.Dial()
			}
			r.MustApply(rig.Web("Always"), run.OutcomeCreated)
			app, _ := r.Runtime.Container("app")
			r.Runtime.RemoveRecord(app.ID)
			deleted := r.Delete(run.DeleteOptions{})
			if served {
				if deleted[0].Err != nil {
					t.Error(deleted[0].Err)
				}
				r.NothingLeft()
				return
			}
			rig.WantErr(t, deleted[0].Err, problem.Runtime, "remove sandbox", "the runtime still lists the object", "restart the runtime")
			if left, err := run.GC(t.Context(), r.Engine(), run.GCOptions{}); err == nil || len(left) != 1 || left[0].Removed {
				t.Errorf("gc: %+v, %v", left, err)
			}
			if views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{}); err != nil || len(views) != 1 {
				t.Errorf("get: %d pods, %v", len(views), err)
			}
		})
	}
}

// TestGetShowsALeftoverOnce covers a sandbox that an earlier pod with the same name left behind.
// get must not show it in addition to the pod, and must never show it as ready.
func TestGetShowsALeftoverOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	left := &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "0-earlier"},
		Labels:      map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "0-earlier"},
		Annotations: map[string]string{"podrun.dev/managed-by": "podrun", "podrun.dev/root-dir": r.Settings.RootDir},
	}
	if _, err := r.Runtime.Client().RunPodSandbox(t.Context(), left, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"without a container", "with one that runs"} {
		if name == "with one that runs" {
			startIn(t, r)
		}
		views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
		if err != nil || len(views) != 1 {
			t.Fatalf("%s: %d pods, %v", name, len(views), err)
		}
		st := views[0].Object.Status
		if st.Reason != "CheckpointMissing" || readiness(st) != corev1.ConditionFalse {
			t.Errorf("%s: %q, ready %s", name, st.Reason, readiness(st))
		}
	}
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
	if err != nil || len(views) != 1 || views[0].Pod == nil || readiness(views[0].Object.Status) != corev1.ConditionTrue {
		t.Errorf("shown in addition to the pod: %+v, %v", views, err)
	}
	r.MustDelete()
}

// startIn starts a container in the runtime's only sandbox.
func startIn(t *testing.T, r *rig.Host) {
	t.Helper()
	sandbox := r.Runtime.Sandboxes()[0]
	client := r.Runtime.Client()
	id, err := client.CreateContainer(t.Context(), sandbox.ID, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1"},
		Labels: map[string]string{"io.kubernetes.pod.uid": "0-earlier", "io.kubernetes.container.name": "app"},
	}, sandbox.Config)
	if err == nil {
		err = client.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readiness(st corev1.PodStatus) corev1.ConditionStatus {
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// TestApplyRestartsAContainerWithoutARecord checks that podrun, like a kubelet, restarts a
// container whose record was removed.
func TestApplyRestartsAContainerWithoutARecord(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	app, _ := r.Runtime.Container("app")
	r.Exit("app", 137)
	r.Runtime.RemoveRecord(app.ID)
	if result := r.Apply(rig.Web("Always")); result.Err != nil {
		t.Fatal(result.Err)
	}
	if again, _ := r.Runtime.Container("app"); again.ID == app.ID || again.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("%+v", again)
	}
}

package stop

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestTerminationLogsDoNotGrow checks that the number of a container's termination logs does not
// grow with its restarts. During the next run, the status must still contain the last termination
// message. podrun must also remove the files of runs whose containers were removed.
func TestTerminationLogsDoNotGrow(t *testing.T) { synctest.Test(t, terminationLogsDoNotGrow) }

func terminationLogsDoNotGrow(t *testing.T) {
	r := rig.New(t)
	pod := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	id := r.MustApply(pod, run.OutcomeCreated).ID
	dir := r.Layout().Pod(id.UID).Container("app")
	// This file belongs to a run that was removed to free disk space.
	if err := os.WriteFile(dir+"/0badcafe", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		app, _ := r.Runtime.Container("app")
		message := fmt.Sprintf("run %d", i)
		for _, m := range app.Config.GetMounts() {
			if m.GetContainerPath() == "/dev/termination-log" {
				if err := os.WriteFile(m.GetHostPath(), []byte(message), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.Exit("app", 1)
		if result := r.Apply(pod); result.Err != nil {
			t.Fatal(result.Err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
			t.Errorf("after %d restarts: %d termination logs, %v, want 2", i+1, len(files), err)
		}
		views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
		if err != nil || len(views) != 1 {
			t.Fatal(views, err)
		}
		if last := views[0].Object.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Message != message {
			t.Errorf("after %d restarts: %+v, want the message %q", i+1, last, message)
		}
	}
	r.MustDelete()
}

// TestCreatedContainerCountsAsARestart covers a podrun process that was killed after it had created
// a container, and before it started it. The container must count as a restart, as in the kubelet
// (startContainer in pkg/kubelet/kuberuntime), which uses the count of the newest container plus 1,
// regardless of its state. The runtime may still reserve the container's name, and the name of the
// log file contains the attempt number.
func TestCreatedContainerCountsAsARestart(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.KillAt(rig.Step{Method: "StartContainer"}, false, rig.Web("Never"))
	if result := r.Apply(rig.Web("Never")); result.Err != nil {
		t.Fatal(result.Err)
	}
	views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{})
	if err != nil || len(views) != 1 {
		t.Fatal(views, err)
	}
	st := views[0].Object.Status
	if app := st.ContainerStatuses[0]; st.Phase != corev1.PodRunning || app.RestartCount != 1 || app.LastTerminationState.Terminated != nil {
		t.Errorf("%s, %+v", st.Phase, app)
	}
	r.MustDelete()
}

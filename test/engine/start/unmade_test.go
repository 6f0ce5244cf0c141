package start

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestMissingProgram checks that a container whose program is missing terminates in the same way if
// the runtime fails to start it (containerd) and if the runtime fails to create it (CRI-O).
func TestMissingProgram(t *testing.T) {
	t.Parallel()
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  dnsPolicy: Default
  containers:
  - {name: app, image: "registry.example/app:1", command: [nosuch]}
  - {name: side, image: "registry.example/web:1"}`
	for _, p := range []critest.Profile{critest.Containerd(), critest.CRIO()} {
		t.Run(p.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, critest.As(p))
				for restarts := range int32(3) {
					result := r.Apply(pod)
					rig.WantErr(t, result.Err, problem.NotFound, "pod default/web: container app", `its command was not found: exec: "nosuch": executable file not found in $PATH`)
					s := containerStatus(t, result.Status, "app")
					if end := s.State.Terminated; end == nil && s.State.Waiting == nil || end != nil && (end.ExitCode != 128 || end.Reason != "StartError") || s.RestartCount != restarts {
						t.Errorf("after %d restarts: %+v", restarts, s)
					}
					if last := s.LastTerminationState.Terminated; restarts > 0 && (last == nil || last.Reason != "StartError" || p.Name == "containerd" && last.StartedAt.Unix() != 0) {
						t.Errorf("after %d restarts: the run before is %+v", restarts, last)
					}
					if side := containerStatus(t, result.Status, "side"); side.State.Running == nil || side.RestartCount > 0 {
						t.Errorf("after %d restarts: the other container is %+v", restarts, side)
					}
				}
				if !r.Emitted("Failed app", "executable file not found") {
					t.Errorf("events %q", r.Reasons())
				}
				r.MustDelete()
			})
		})
	}
}

func containerStatus(t *testing.T, s corev1.PodStatus, name string) corev1.ContainerStatus {
	t.Helper()
	for _, c := range s.ContainerStatuses {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s in %+v", name, s)
	return corev1.ContainerStatus{}
}

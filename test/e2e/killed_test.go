package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/test/patience"
)

// TestKilled kills podrun between two steps. The next command must succeed, and leave one pod or nothing.
// test/crash kills podrun at each of its steps.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pod := r.pod("killed", `
apiVersion: v1
kind: Pod
metadata: {name: killed}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  initContainers:
    - {name: setup, image: IMAGE, command: [sh, -c, 'echo prepared > /v/file'], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
    - {name: app, image: IMAGE, command: [sh, -c, 'cat /v/file; grep -c killed /etc/hosts; sleep 600'], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, emptyDir: {}}]
`)
	for _, step := range []string{"cri/RunPodSandbox/after#1", "cri/StartContainer/before#1", "cri/StartContainer/after#2"} {
		r.killedAt(step, "apply", pod)
		r.must("apply", pod)
		if logs := r.until("killed", "[app] 1"); !strings.Contains(logs, "[app] prepared") {
			t.Errorf("killed at %s: the logs are\n%s", step, logs)
		}
		if n := r.sandboxes("killed"); n != 1 {
			t.Errorf("killed at %s: the pod has %d sandboxes", step, n)
		}
		r.killedAt("cri/StopPodSandbox/after#1", "delete", "killed")
		r.must("delete", "killed", "--ignore-not-found")
		if n := r.sandboxes("killed"); n != 0 {
			t.Errorf("killed at %s: the deleted pod has %d sandboxes", step, n)
		}
	}
}

// killedAt runs a command that kills itself with SIGKILL at a step (internal/faultpoint).
func (r *rig) killedAt(step string, args ...string) {
	r.Helper()
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	c := patience.Command(ctx, program, args...)
	c.Env = append(r.env(), "PODRUN_FAULTPOINT="+step)
	out, err := c.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		r.Fatalf("podrun %v was not killed at %s: %v\n%s", args, step, err, out)
	}
}

// sandboxes returns the number of a pod's sandboxes on the runtime.
func (r *rig) sandboxes(pod string) int {
	r.Helper()
	client, err := cri.Dial(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "", time.Hour)
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	list, err := client.ListPodSandbox(r.Context(), map[string]string{"io.kubernetes.pod.namespace": "e2e", "io.kubernetes.pod.name": pod})
	if err != nil {
		r.Fatal(err)
	}
	return len(list)
}

package cri_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

// TestRemovalOfAnUnstartedTask checks that a removal also removes a container whose task was
// created and never started, on its own and with its sandbox. If the task remains, or belongs to
// another container, the removal must return the error.
func TestRemovalOfAnUnstartedTask(t *testing.T) {
	other := status.Error(codes.FailedPrecondition, "cannot delete running task "+strings.Repeat("a", 64)+": failed precondition")
	for name, test := range map[string]struct {
		containers int
		sandbox    bool
		fault      string // the method that fails when it is called
		err        error
		// expected parts of the error; if empty, no error is expected
		want    []string
		deletes int // expected number of calls of Delete
	}{
		"the container":         {containers: 1, deletes: 1},
		"the sandbox":           {containers: 2, sandbox: true, deletes: 2},
		"its task stays":        {containers: 1, fault: "Delete", err: status.Error(codes.Internal, "shim is gone"), want: []string{"cannot delete running task", "shim is gone", "restart containerd"}, deletes: 1},
		"no such service":       {containers: 1, fault: "Delete", err: status.Error(codes.Unimplemented, "unknown service"), want: []string{"cannot delete running task"}, deletes: 1},
		"another one's task":    {containers: 1, fault: "RemoveContainer", err: other, want: []string{"cannot delete running task aaa"}},
		"another sandbox's":     {containers: 1, sandbox: true, fault: "RemovePodSandbox", err: other, want: []string{"cannot delete running task aaa"}},
		"a refusal without one": {containers: 1, fault: "RemoveContainer", err: status.Error(codes.FailedPrecondition, "cannot delete running task: failed precondition"), want: []string{"cannot delete running task"}},
	} {
		t.Run(name, func(t *testing.T) {
			rt := critest.New(critest.AnyImage())
			t.Cleanup(rt.Close)
			dir := t.TempDir()
			stop, err := rt.Serve(filepath.Join(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			c, err := cri.Dial("unix://"+filepath.Join(dir, "s"), "", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			sandbox, ids := unstartedPod(t, rt, c, test.containers)
			if test.fault != "" {
				rt.Fault(test.fault, critest.Fault{Err: test.err})
			}
			if test.sandbox {
				err = c.RemovePodSandbox(t.Context(), sandbox)
			} else {
				err = c.RemoveContainer(t.Context(), ids[0])
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if len(test.want) == 0 && (err != nil || len(rt.Containers()) > 0) {
				t.Errorf("%v; %d containers are left", err, len(rt.Containers()))
			}
			deletes := 0
			for _, call := range rt.Calls() {
				if call.Method == "Delete" {
					deletes++
				}
			}
			if deletes != test.deletes {
				t.Errorf("Delete was called %d times, want %d", deletes, test.deletes)
			}
		})
	}
}

// unstartedPod creates a sandbox with containers whose tasks were never started.
func unstartedPod(t *testing.T, rt *critest.Runtime, c *cri.Client, containers int) (sandbox string, ids []string) {
	t.Helper()
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u"}, LogDirectory: t.TempDir()}
	sandbox, err := c.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range containers {
		id, err := c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: string(rune('a' + i))}, Image: &runtimeapi.ImageSpec{Image: "busybox"}}, config)
		if err != nil {
			t.Fatal(err)
		}
		if !rt.LeaveTask(id) {
			t.Fatalf("container %s is not created", id)
		}
		ids = append(ids, id)
	}
	return sandbox, ids
}

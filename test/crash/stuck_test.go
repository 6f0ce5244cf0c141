package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stick brings a created container of a pod into a state that can result if podrun is killed some
// milliseconds after StartContainer begins. In this state, containerd reports the container as
// exited, and its task was created but never started.
func (o *outside) stick(ctx context.Context, pod string) (id string, err error) {
	containers, err := o.containers(ctx, pod)
	if err != nil {
		return "", err
	}
	for _, c := range containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_CREATED {
			id = c.Id
		}
	}
	if id == "" {
		return "", fmt.Errorf("none of %d containers has the state created", len(containers))
	}
	in := metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	mounts, err := snapshotsapi.NewSnapshotsClient(o.conn).Mounts(in, &snapshotsapi.MountsRequest{Snapshotter: "overlayfs", Key: id})
	if err != nil {
		return "", err
	}
	if _, err := tasksapi.NewTasksClient(o.conn).Create(in, &tasksapi.CreateTaskRequest{ContainerID: id, Rootfs: mounts.Mounts}); err != nil {
		return "", err
	}
	if _, err := o.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id}); err == nil {
		return "", fmt.Errorf("containerd started a second task of %s", id)
	}
	return id, nil
}

// TestTaskNeverStarted reproduces the only failure of the sweep with seed 3 (faults.md, F11):
// containerd refuses to remove the container, either until containerd is restarted or forever.
func TestTaskNeverStarted(t *testing.T) {
	o, dir := onRuntime(t)
	// This call ignores leftovers from before the test.
	o.leaks(t.Context(), newHost(dir, 0))
	for i, then := range []string{"apply", "delete"} {
		t.Run(then, func(t *testing.T) {
			h := newHost(dir, 900+i)
			args, _, err := h.command("apply")
			if err != nil {
				t.Fatal(err)
			}
			// The second start is that of the container that follows the init container.
			if r := h.podrun([]string{"PODRUN_FAULTPOINT=cri/StartContainer/before#2"}, args...); !r.killed {
				t.Fatalf("not killed: code %d: %s", r.code, last(r.out, 3))
			}
			id, err := o.stick(t.Context(), h.pod)
			if err != nil {
				t.Fatal(err)
			}
			_, err = o.runtime.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id})
			if err == nil || !strings.Contains(err.Error(), "cannot delete running task "+id) {
				t.Fatalf("containerd removes the container itself: %v", err)
			}
			if then == "apply" {
				if r := h.podrun(nil, "apply", filepath.Join(h.dir, "one.yaml"), "--timeout", recovery.String()); r.code != 0 {
					t.Errorf("apply: code %d: %s", r.code, r.out)
				} else if err := o.runs(t.Context(), h.pod); err != nil {
					t.Error(err)
				}
			}
			if r := h.podrun(nil, "delete", "--all", "--timeout", recovery.String()); r.code != 0 {
				t.Errorf("delete: code %d: %s", r.code, r.out)
			}
			if left := o.leaks(t.Context(), h); len(left) > 0 {
				t.Errorf("left: %s", strings.Join(left, "\n\t"))
			}
		})
	}
}

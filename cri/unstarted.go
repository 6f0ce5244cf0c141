package cri

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// undeletable matches the error with which containerd refuses to remove a container that has a task
// (1.6 to 2.4, client/container.go, before 2.0 container.go: Delete). If the container belongs to
// the CRI, the task was created by an interrupted StartContainer and never started. The CRI plugin
// reports the container as exited, and deletes the task only when containerd restarts.
var undeletable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`cannot delete running task ([0-9a-f]{64})\b`)
})

// unstarted returns the ID of the task that prevented containerd from removing a container or a sandbox. The
// task's container has the same ID. For other errors, unstarted returns "".
func unstarted(err error) string {
	if err == nil {
		return ""
	}
	if m := undeletable().FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// removal makes a call that removes a container or a sandbox. If containerd refuses the call
// because of a task that was never started, removal deletes the task with containerd's own service
// on the same socket, and repeats the call. The function mine reports whether the call would remove
// the container with a given ID. removal never deletes tasks of other containers.
func (c Containerd) removal(ctx context.Context, call func() error, mine func(id string) (bool, error)) error {
	for deleted := map[string]bool{}; ; {
		err := call()
		id := unstarted(err)
		if id == "" || deleted[id] || c.tasks == nil {
			return err
		}
		if is, merr := mine(id); merr != nil || !is {
			return errors.Join(err, merr)
		}
		if terr := c.deleteTask(ctx, id); terr != nil {
			return fmt.Errorf("%w; containerd did not delete its task, which was never started: %w; restart containerd", err, terr)
		}
		deleted[id] = true
	}
}

// DeleteUnstartedTask deletes the task of a stopped sandbox, if the sandbox has one. If podrun is
// killed during RunPodSandbox, containerd 2 may keep a task that was created and never started,
// and RemovePodSandbox does not delete it (containerd issue 12344). containerd keeps other data
// about such a sandbox until it restarts; the data can then be removed. Runtimes other than
// containerd have no such tasks.
func (c Containerd) DeleteUnstartedTask(ctx context.Context, sandbox string) error {
	if c.tasks == nil {
		return nil
	}
	if err := c.deleteTask(ctx, sandbox); err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("delete its task, which was never started: %w; restart containerd", err)
	}
	return nil
}

// deleteTask deletes a task that is not running, and the task's process. containerd refuses to
// delete a running task. It is not an error if the task does not exist.
func (c Containerd) deleteTask(ctx context.Context, id string) error {
	_, err := within(inContainerd(ctx), c.timeout, func(ctx context.Context) (*tasksapi.DeleteResponse, error) {
		return c.tasks.Delete(ctx, &tasksapi.DeleteTaskRequest{ContainerID: id})
	})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// inSandbox reports whether id is a sandbox's own container or one of the containers in it.
func (c *Client) inSandbox(ctx context.Context, sandbox, id string) (bool, error) {
	if id == sandbox {
		return true, nil
	}
	ids, err := c.containerIDs(ctx, &runtimeapi.ContainerFilter{Id: id, PodSandboxId: sandbox})
	return len(ids) == 1, err
}

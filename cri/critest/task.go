package critest

import (
	"context"
	"maps"
	"slices"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// LeaveTask simulates a StartContainer whose client was killed. containerd can then leave a
// created container in this state: containerd reports it as exited, its task was created and
// never started, and containerd cannot remove it. A client that is connected through Serve can
// delete the task. LeaveTask returns false if there is no such container.
func (rt *Runtime) LeaveTask(id string) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(id)
	if err != nil || c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return false
	}
	c.finishedAt = rt.now()
	c.state, c.exit, c.unstarted = runtimeapi.ContainerState_CONTAINER_EXITED, exit{code: 128, reason: "StartError"}, true
	return true
}

// CancelStart simulates a StartContainer that containerd canceled because the client was
// killed. It changes a created container to the state in which containerd can leave it:
// exited, although it was never started. It returns false if there is no such container.
func (rt *Runtime) CancelStart(id string) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(id)
	if err != nil || c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return false
	}
	c.finishedAt, c.state = rt.now(), runtimeapi.ContainerState_CONTAINER_EXITED
	c.exit = exit{code: 128, reason: "StartError", message: "failed to create containerd task: failed to create shim task: context canceled: unknown"}
	return true
}

// LeaveSandboxTask simulates a RunPodSandbox whose client was killed. containerd 2 can then
// leave a sandbox in this state: the sandbox is not ready, and its task was created and never
// started. RemovePodSandbox does not delete that task (containerd issue 12344).
func (rt *Runtime) LeaveSandboxTask(id string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if s, there := rt.sandboxes[id]; there {
		s.ready = false
	}
	if rt.sandboxTasks == nil {
		rt.sandboxTasks = map[string]bool{}
	}
	rt.sandboxTasks[id] = true
}

// SandboxTasks lists the tasks that LeaveSandboxTask created and that still exist.
func (rt *Runtime) SandboxTasks() []string {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return slices.Sorted(maps.Keys(rt.sandboxTasks))
}

// undeletable returns containerd's error for the removal of a container that has a task. The caller
// must hold rt.mu.
func (c *container) undeletable() error {
	if !c.unstarted {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "failed to delete containerd container %q: cannot delete running task %s: failed precondition", c.id, c.id)
}

// tasks implements those calls of containerd's own task service that podrun uses.
type tasks struct {
	tasksapi.UnimplementedTasksServer
	rt *Runtime
}

// Delete deletes a task that was never started.
func (t tasks) Delete(ctx context.Context, r *tasksapi.DeleteTaskRequest) (*tasksapi.DeleteResponse, error) {
	if err := inNamespace(ctx); err != nil {
		return nil, err
	}
	t.rt.mu.Lock()
	defer t.rt.mu.Unlock()
	if t.rt.sandboxTasks[r.GetContainerID()] {
		delete(t.rt.sandboxTasks, r.GetContainerID())
		return &tasksapi.DeleteResponse{ID: r.GetContainerID()}, nil
	}
	c, ok := t.rt.containers[r.GetContainerID()]
	switch {
	case !ok || c.process == nil && !c.unstarted:
		return nil, status.Errorf(codes.NotFound, "no running task found: task %s not found: not found", r.GetContainerID())
	case !c.unstarted:
		return nil, status.Error(codes.Unknown, "cannot delete a running process")
	}
	c.unstarted = false
	return &tasksapi.DeleteResponse{ID: c.id}, nil
}

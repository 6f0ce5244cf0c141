package start

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/container/hook"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// Hooks runs postStart hooks and records on disk which hooks have run.
type Hooks struct {
	pod   *pod.Pod
	lease *lease.Lease
	stop  *stop.Stopper
	// fail records that the container has failed. The pass continues with the other containers.
	fail func(error)
	// EndDecides is true if the exits of the containers determine the result of the operation, so
	// that a failed hook does not make the operation fail.
	EndDecides bool
}

// PostStart runs the container's postStart hook. If the hook fails, PostStart kills the container, and
// podrun continues with the pod's next container.
//
// A hook may run forever, so PostStart runs it without the pod's lock: other commands, such as delete,
// need not wait. Instead, it locks the hook's marker file, so that another podrun process that finds
// the hook pending does not run the hook again. It writes the marker under the pod's lock, because the
// pod is then known to exist.
//
// If another command takes over the pod while the hook runs, PostStart still records the hook's result
// for this container. The new owner must then act on a failure.
func (h *Hooks) PostStart(ctx context.Context, name string) error {
	found := h.pod.Observed.Container(name)
	if found == nil {
		return fmt.Errorf("container %s was not found", name)
	}
	c := *found
	if h.pod.Observed.Hooks[c.ID] == lifecycle.HookFailed {
		return h.failHook(ctx, c, errors.New("failed while another podrun process ran it"))
	}
	claim, err := h.claimHook(c.ID)
	if err != nil {
		return err
	}
	if claim == nil {
		return h.awaitHook(ctx, c)
	}
	defer func() { _ = hostfile.Unlock(claim) }()
	plan, _ := hook.New(h.pod.Plan.ID, lifecycle.FindContainer(h.pod.Spec(), c.Name).Container, hook.PostStart)
	var failed error
	canceled := false
	lost := h.lease.Do(ctx, h.lease.Ended, func(ctx context.Context) error {
		failed = hook.Apply(ctx, plan, h.pod.HookTarget(c))
		canceled = failed != nil && ctx.Err() != nil
		return nil
	})
	if cause := context.Cause(ctx); failed != nil && cause != nil {
		return fmt.Errorf("%w in the postStart hook of container %s", cause, c.Name)
	}
	if lost != nil && !errors.Is(lost, store.ErrChanged) {
		return lost
	}
	if now := h.pod.Observed.Container(c.Name); lost != nil && (now == nil || now.ID != c.ID || now.State != lifecycle.Running) {
		// the container was stopped while the hook ran
		return lost
	}
	if canceled {
		return store.ErrChanged
	}
	if failed != nil && h.lease.Lock.Owned() {
		return errors.Join(h.failHook(ctx, c, failed), lost)
	}
	state := lifecycle.HookDone
	if failed != nil {
		state = lifecycle.HookFailed
	}
	if err := h.markHook(c.ID, state); err != nil {
		return err
	}
	return lost
}

// failHook reports a failed hook and kills the hook's container. It first records that the hook has
// failed: if the kill fails or is interrupted, the next pass or the next command kills the container.
func (h *Hooks) failHook(ctx context.Context, c lifecycle.Container, failed error) error {
	if err := h.markHook(c.ID, lifecycle.HookFailed); err != nil {
		return err
	}
	h.pod.Emit(event.Warning, event.FailedPostStartHook, c.Name, hook.EventOf(failed, "PostStartHook failed"))
	if !h.EndDecides {
		h.fail(&problem.Error{Kind: problem.Failed,
			Object: fmt.Sprintf("pod %s: container %s", h.pod.Plan.ID, c.Name), Op: "postStart hook",
			Err: hook.Cause(failed)})
	}
	if err := h.stop.Container(ctx, c.ID, h.pod.GracePeriod(), "FailedPostStartHook"); err != nil {
		return err
	}
	if err := h.markHook(c.ID, lifecycle.HookDone); err != nil {
		return err
	}
	return h.pod.KeepStartFailure(c.Name, lifecycle.Waiting{Reason: lifecycle.PostStartHookError, Message: hook.Cause(failed).Error()}, false)
}

// awaitHook waits, without the pod's lock, until another podrun process has finished running the hook.
func (h *Hooks) awaitHook(ctx context.Context, c lifecycle.Container) error {
	h.pod.Node.SendWarnings(problem.List{{Object: "pod " + h.pod.Plan.ID.String(), Warning: true,
		Message: fmt.Sprintf("waiting for another podrun process that runs the postStart hook of container %s", c.Name)}})
	err := h.lease.Do(ctx, h.lease.Ended, func(ctx context.Context) error { return h.hookFree(ctx, c.ID) })
	if err != nil {
		return err
	}
	return store.ErrChanged
}

// hookFree waits until no process is running the container's hook.
func (h *Hooks) hookFree(ctx context.Context, id string) error {
	for {
		claim, err := store.LockFile(h.hookMark(id))
		if err != nil {
			return err
		}
		if claim != nil {
			return hostfile.Unlock(claim)
		}
		if err := wait.Sleep(ctx, store.SlowestLockPoll); err != nil {
			return err
		}
	}
}

func (h *Hooks) hookMark(containerID string) string {
	return filepath.Join(h.pod.Plan.Layout.Pod(h.pod.Plan.ID.UID).HookMarks(), containerID)
}

// makeMarks creates the directory for the marker files of hooks. The caller must hold the pod's
// lock, and must call it again for each hook, because a user may have removed the pod's directory.
func (h *Hooks) makeMarks() error {
	if err := hostfile.MakeDirsDurable(h.pod.Plan.Layout.Pod(h.pod.Plan.ID.UID).HookMarks(), 0o750); err != nil {
		return fmt.Errorf("pod %s: save the state of a hook: %w", h.pod.Plan.ID, err)
	}
	return nil
}

// claimHook locks a hook's marker file. It returns nil if another process is running the hook.
func (h *Hooks) claimHook(containerID string) (*os.File, error) {
	if err := h.makeMarks(); err != nil {
		return nil, err
	}
	claim, err := store.LockFile(h.hookMark(containerID))
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", h.pod.Plan.ID, err)
	}
	return claim, nil
}

// markHook records the state of the container's hook on disk.
func (h *Hooks) markHook(containerID string, state lifecycle.HookState) error {
	if err := h.makeMarks(); err != nil {
		return err
	}
	if err := store.HookFile.Write(h.hookMark(containerID), state); err != nil {
		return fmt.Errorf("pod %s: save the state of a hook: %w", h.pod.Plan.ID, err)
	}
	h.pod.Observed.SetHook(containerID, state)
	return nil
}

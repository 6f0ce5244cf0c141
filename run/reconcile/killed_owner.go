package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox"
	"github.com/podrun/podrun/sandbox/cni"
)

// Calls that the runtime executes for a killed podrun end some time later: the runtime
// cancels them, but a call that is almost complete still takes effect. The owner record
// shows that the last owner was killed (store.PodLock.Killed); only then does the next
// owner wait.

// quietFor is how long nothing of a removed pod may come up before it counts as
// removed. containerd lists a sandbox when its network is set up, which takes well
// below a second.
const quietFor = 2 * time.Second

// quietPoll is the interval at which podrun polls the runtime for such effects.
const quietPoll = 200 * time.Millisecond

// releaseFor is how long the runtime may take to release the network of a sandbox whose
// creation it cancels.
const releaseFor = 5 * time.Second

// awaitKilled makes the sandbox for whose name the runtime still works on the call of a
// podrun that was killed. The error is store.ErrChanged if that one's sandbox has
// come up instead: it is the pod's, and the caller decides again.
func (w *starter) awaitKilled(ctx context.Context, plan sandbox.Plan, reserved error) (made sandbox.Sandbox, err error) {
	known := len(w.pod.Observed.Sandboxes)
	err = cri.While(ctx, cri.BusyFor, func() (again bool, _ error) {
		now, err := w.pod.Node.Observe(ctx, w.pod.Plan.ID.UID)
		if err != nil {
			return false, errors.Join(reserved, err)
		}
		if len(now.Sandboxes) > known {
			w.pod.Observed = now
			return false, store.ErrChanged
		}
		made, err = sandbox.Apply(ctx, w.pod.Node.Client, plan) // its undo is there since the first try
		return cri.Reserved(err), err
	})
	return made, err
}

// removeLate removes objects of the pod that the runtime still creates for a killed
// podrun, until no more appear.
func (w *remover) removeLate(ctx context.Context) error {
	if !w.lease.Lock.Killed {
		return nil
	}
	var gone []string
	for _, sb := range w.pod.Observed.Sandboxes {
		gone = append(gone, sb.ID)
	}
	begun := time.Now()
	for quiet := begun; time.Since(quiet) < quietFor && time.Since(begun) < cri.BusyFor; {
		left, err := w.pod.Node.Observe(ctx, w.pod.Plan.ID.UID)
		if err != nil {
			return err
		}
		if len(left.Sandboxes)+len(left.Containers) > 0 {
			w.pod.Observed, quiet = left, time.Now()
			for _, sb := range left.Sandboxes {
				gone = append(gone, sb.ID)
			}
			if err := w.pod.OnlyOurs(); err != nil {
				return err
			}
			if err := w.removeStopped(ctx); err != nil {
				return err
			}
		}
		if err := wait.Sleep(ctx, quietPoll); err != nil {
			return err
		}
	}
	if err := w.awaitRelease(ctx); err != nil {
		return err
	}
	if err := w.removeNetwork(ctx, gone); err != nil {
		return err
	}
	w.lease.Lock.Killed = false
	return nil
}

// removeNetwork removes leftovers of network plugins for the pod's sandboxes, all of
// which have been removed: a kill of podrun also ends the plugin that was releasing a
// network.
func (w *remover) removeNetwork(ctx context.Context, gone []string) error {
	all, err := w.attachments(ctx)
	if err != nil {
		return err
	}
	return cni.Remove(ctx, w.pod.Plan.Layout.RootDir, all, gone)
}

// awaitRelease waits, for as long as releaseFor, until the runtime has released the
// networks of the pod's sandboxes: the plugins' DEL fails if its rules are removed before,
// and the runtime then keeps the network namespace.
func (w *remover) awaitRelease(ctx context.Context) error {
	return cri.While(ctx, releaseFor, func() (again bool, err error) {
		left, err := w.attachments(ctx)
		return len(left) > 0, err
	})
}

// attachments are those of the pod's sandboxes to networks.
func (w *remover) attachments(ctx context.Context) ([]cni.Attachment, error) {
	all, err := cni.ReadAttachments(ctx)
	return slices.DeleteFunc(all, func(a cni.Attachment) bool {
		return !a.Managed || a.RootDir != w.pod.Plan.Layout.RootDir || a.Pod.UID != w.pod.Plan.ID.UID
	}), err
}

// removeUnreleased removes leftovers of network plugins for sandboxes whose stop was
// interrupted, after the sandboxes have been removed. The DEL of a later stop succeeds
// without removing them: the bridge plugin reads the address of a rule from the
// interface, which its first DEL has removed.
func (w *remover) removeUnreleased(ctx context.Context) error {
	if len(w.lease.Lock.Unreleased) == 0 {
		return nil
	}
	left, err := w.pod.Node.Client.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Clone(w.lease.Lock.Unreleased), func(id string) bool {
		return slices.ContainsFunc(left, func(sb *runtimeapi.PodSandbox) bool { return sb.GetId() == id })
	})
	if err := w.removeNetwork(ctx, gone); err != nil {
		return err
	}
	w.lease.Lock.NoteReleased(gone)
	return nil
}

// removeStopped kills and removes the observed sandboxes and containers of the pod. A
// container whose sandbox no longer exists is removed separately.
func (w *remover) removeStopped(ctx context.Context) error {
	for _, sb := range w.pod.Observed.Sandboxes {
		if err := w.stop.stopSandbox(ctx, sb.ID); err != nil {
			return err
		}
	}
	if err := w.removeSandboxes(ctx); err != nil {
		return err
	}
	for _, c := range w.pod.Observed.Containers {
		if err := w.pod.Node.Client.RemoveContainer(ctx, c.ID); err != nil {
			return fmt.Errorf("remove container %s (%s): %w", c.Name, observe.ShortID(c.ID), err)
		}
	}
	return nil
}

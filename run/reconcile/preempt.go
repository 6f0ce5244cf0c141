package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// Preempted is the kubelet's message for pods that it stops in favor of a critical one
// (pkg/kubelet/preemption).
const Preempted = "Preempted in order to admit critical pod"

// preemptTimeout is how long a critical pod waits for another command that works on one of its
// victims. The limit resolves a deadlock in which that command waits for this one.
const preemptTimeout = 2 * time.Minute

// preempt stops the victims so that this pod can use their resources. It observes their grace periods
// and does not hold this pod's lock. No other pod can use these resources, because admission reserved
// them for this pod under the node's lock. The victims remain as stopped pods. If a user applies a
// victim again, podrun must admit it again.
func (a *applying) preempt(ctx context.Context, victims []identity.Pod) error {
	if len(victims) == 0 {
		return nil
	}
	return a.lease.Do(ctx, a.lease.Lost, func(ctx context.Context) error {
		return errors.Join(node.InParallel(victims, func(id identity.Pod) error {
			if err := a.preemptOne(ctx, id); err != nil {
				return pod.InStep(a.pod.Plan.ID, "preempt pod "+id.String(), err)
			}
			return nil
		})...)
	})
}

func (a *applying) preemptOne(ctx context.Context, id identity.Pod) error {
	bounded, cancel := context.WithTimeoutCause(ctx, preemptTimeout, problem.TimeoutError{After: preemptTimeout})
	defer cancel()
	lock, err := a.pod.Node.Locks().LockPod(bounded, id, store.PurposeStop)
	defer lock.Release()
	if err != nil {
		return err
	}
	if c, err := store.ReadCheckpoint(a.pod.Node.Layout(), id.UID); err != nil || c == nil {
		return err // nil if another command deleted the victim
	}
	v, err := Resume(ctx, a.pod.Node, id, lock)
	if err != nil {
		return err
	}
	if err := v.lease.Acquire(store.PurposeStop); err != nil {
		return v.closeAfter(err)
	}
	if err := v.pod.MarkStopped("was preempted in order to admit critical pod "+a.pod.Plan.ID.String(), "apply it again when its resources are free", true); err != nil {
		return v.closeAfter(err)
	}
	v.pod.Emit(event.Warning, event.Preempting, "", Preempted)
	return v.closeAfter(v.stop.Owned(ctx, v.pod.GracePeriod()))
}

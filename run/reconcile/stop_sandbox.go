package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// stopSandboxes stops those of podrun's sandboxes that are chosen. It tries all.
func (w *stopper) stopSandboxes(ctx context.Context, chosen func(lifecycle.Sandbox) bool) error {
	var errs []error
	for i := range w.pod.Observed.Sandboxes {
		sb := &w.pod.Observed.Sandboxes[i]
		if !sb.Managed || !chosen(*sb) {
			continue
		}
		if err := w.stopSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		sb.Ready = false
	}
	return errors.Join(errs...)
}

// stopSandbox stops a sandbox. If the last owner was killed, it may have been killed
// while the runtime created the sandbox.
func (w *stopper) stopSandbox(ctx context.Context, id string) error {
	err := w.pod.Node.Client.StopPodSandbox(ctx, id)
	if err != nil {
		w.lease.Lock.NoteUnreleased([]string{id})
	} else if w.lease.Lock.Killed {
		err = w.pod.Node.Client.DeleteUnstartedTask(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", observe.ShortID(id), err)
	}
	return nil
}

// noteEndingSandboxes records that the pod's sandboxes are about to be stopped. If this
// process is killed during the stop, the runtime reports them as ready for a while,
// although nothing can be started in them. The error is store.ErrChanged if another
// command owns the pod.
func (w *stopper) noteEndingSandboxes() error {
	if err := w.lease.Lock.CheckOwned(); err != nil {
		return err
	}
	ready := w.endingSandboxes(w.lease.Lock.Ending)
	if len(ready) == 0 {
		return nil
	}
	return w.lease.Lock.Update(func(r *store.OwnerRecord) {
		maps.Copy(ready, r.Ending)
		r.Ending = ready
	})
}

// endingSandboxes are the sandboxes that are ready and not noted yet.
func (w *stopper) endingSandboxes(noted map[string]time.Time) map[string]time.Time {
	ready := map[string]time.Time{}
	for _, sb := range w.pod.Observed.Sandboxes {
		if _, is := noted[sb.ID]; sb.Managed && sb.Ready && !is {
			ready[sb.ID] = time.Now()
		}
	}
	return ready
}

// removeDead removes the pod's sandboxes that have ended but for the newest one, and
// those that hold the last run of a container: each outage of a pod leaves one, with its
// network's name and its containers. The kubelet's garbage collection does the same
// (pkg/kubelet/kuberuntime/kuberuntime_gc.go, evictSandboxes).
func (w *starter) removeDead(ctx context.Context) error {
	holds := map[string]bool{}
	for _, c := range w.pod.Observed.Containers {
		if newest := w.pod.Observed.Newest(c.Name); newest != nil {
			holds[newest.SandboxID] = true
		}
	}
	for i, sb := range slices.Clone(w.pod.Observed.Sandboxes) {
		if i < 2 || sb.Ready || !sb.Managed || holds[sb.ID] {
			continue
		}
		if err := w.pod.Node.Client.RemovePodSandbox(ctx, sb.ID); err != nil {
			return pod.RuntimeError(w.pod.Plan.ID, fmt.Errorf("remove the ended sandbox %s: %w", observe.ShortID(sb.ID), err))
		}
		of := func(id string) bool { return id == sb.ID }
		w.pod.Observed.Sandboxes = slices.DeleteFunc(w.pod.Observed.Sandboxes, func(s lifecycle.Sandbox) bool { return of(s.ID) })
		for _, c := range w.pod.Observed.Containers {
			if of(c.SandboxID) {
				if err := w.removeLog(c); err != nil {
					return fmt.Errorf("pod %s: remove the log of an earlier run (%s): %w", w.pod.Plan.ID, observe.ShortID(c.ID), err)
				}
			}
		}
		w.pod.Observed.Containers = slices.DeleteFunc(w.pod.Observed.Containers, func(c lifecycle.Container) bool { return of(c.SandboxID) })
	}
	return nil
}

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// Eviction describes why and how a pod is evicted.
type Eviction struct {
	Grace time.Duration // replaces the pod's grace period
	// the message of the event and of the pod's status
	Message string
	ForNode bool // true if the node is short of a resource, false if the pod exceeds a limit
	// Shutdown is the reason in the pod's status if podrun stops the pod because the node shuts
	// down. Such a pod keeps its data, and runs again after the shutdown. Shutdown is empty for an
	// eviction.
	Shutdown string
}

// Evict stops a pod permanently. The pod is Failed with reason Evicted, as in the kubelet (evictPod in
// pkg/kubelet/eviction). Evict removes the pod's containers with their layers, and the content of its
// emptyDirs. It keeps the logs, and records the exits of the containers in the pod's status. If podrun
// stops the pod because the node shuts down, it removes none of these (nodeshutdown in pkg/kubelet).
// The caller holds the pod's lock. The error is of kind Runtime, or the cause that ended ctx. If Evict
// could not stop the pod, the pod's next owner stops it.
func Evict(ctx context.Context, n *node.Node, id identity.Pod, lock *store.PodLock, e Eviction) error {
	w, err := Resume(ctx, n, id, lock)
	if err != nil {
		return err
	}
	// An eviction must work even if podrun cannot write to the disk: a full disk may be the reason for the
	// eviction.
	lock.Removal = true
	return errors.Join(w.loop.explain(ctx, w.evict(ctx, e)), w.Close())
}

func (w *Worker) evict(ctx context.Context, e Eviction) error {
	if err := w.lease.Acquire(store.PurposeStop); err != nil {
		return err
	}
	if w.pod.Observed.Kept.Terminal() {
		// the pod ended before podrun acquired its lock
		return nil
	}
	// Record this first, so that the next process does not start the pod if this process is
	// killed.
	if e.Shutdown != "" {
		if err := w.recordEviction(w.pod.Observed.Kept.StopForShutdown(e.Shutdown, e.Message, time.Now())); err != nil {
			return err
		}
		return w.pod.OfRuntime(w.stop.Owned(ctx, e.Grace))
	}
	if err := w.recordEviction(w.pod.Observed.Kept.Evict(e.Message, e.ForNode, time.Now())); err != nil {
		return err
	}
	w.pod.Emit(event.Warning, event.Evicted, "", e.Message)
	if err := w.stop.Owned(ctx, e.Grace); err != nil {
		return w.pod.OfRuntime(err)
	}
	if w.lease.Lock.Held == nil || !w.lease.Lock.Owned() {
		// another command is stopping or removing the pod
		return nil
	}
	return w.pod.OfRuntime(w.clear(ctx))
}

// recordEviction records an eviction. It ignores an error if the disk is not writable, because that may
// be the reason for the eviction.
func (w *Worker) recordEviction(kept lifecycle.Kept) error {
	err := w.pod.Keep(kept)
	if store.CannotWrite(err) {
		w.pod.Observed.Kept, err = kept, nil
	}
	return err
}

// clear records the exits of an evicted pod's containers, and then removes the containers and
// volumes.
func (w *Worker) clear(ctx context.Context) error {
	seen, err := w.pod.Node.Observe(ctx, w.pod.Plan.ID.UID)
	if err != nil {
		return err
	}
	evicted := w.pod.Observed.Kept
	w.pod.Observed = seen
	w.pod.Observed.Kept = evicted.WithContainers(slices.Concat(seen.Containers, evicted.Evicted.Containers))
	if err := w.recordEviction(w.pod.Observed.Kept); err != nil {
		return err
	}
	var errs []error
	for _, c := range seen.Containers {
		if err := w.pod.Node.Client.RemoveContainer(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove container %s (%s): %w", c.Name, observe.ShortID(c.ID), err))
		}
	}
	// If a container remains, it may still use the pod's volumes.
	if len(errs) == 0 {
		// Now that disk space is free, podrun can write this record.
		errs = append(errs, w.clearVolumes(ctx), w.pod.Keep(w.pod.Observed.Kept))
	}
	return errors.Join(errs...)
}

func (w *Worker) clearVolumes(ctx context.Context) error {
	dir, err := w.pod.LockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	return errors.Join(volume.RemoveContents(ctx, w.pod.Plan.Layout, w.pod.Plan.ID.UID),
		volume.ReclaimFiles(w.pod.Plan.Layout, w.pod.Plan.ID.UID, observe.TerminationMessageLimit))
}

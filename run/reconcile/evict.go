package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// Eviction is why and how a pod is evicted.
type Eviction struct {
	Grace   time.Duration // in place of the pod's own
	Message string        // of the event and of the pod's status
	ForNode bool          // the node is short of something; else the pod is over a limit
	// Shutdown is the reason of a pod that is stopped because the node shuts down: it
	// keeps what it has, and runs again afterwards. Empty for an eviction.
	Shutdown string
}

// Evict stops a pod for good: it is Failed with reason Evicted, as in the kubelet
// (evictPod in pkg/kubelet/eviction), and what it has on disk is removed: its
// containers with their layers, and the content of its emptyDirs. Its logs stay, and
// its status with how the containers have ended. One that is stopped for a shutdown of
// the node keeps all of it (nodeshutdown in pkg/kubelet). The pod's lock is the caller's. The
// error is of kind Runtime, or the cause that ended ctx; a pod that an eviction has
// not stopped is stopped by its next owner.
func Evict(ctx context.Context, n *node.Node, id identity.Pod, lock *store.PodLock, e Eviction) error {
	w, err := Resume(ctx, n, id, lock)
	if err != nil {
		return err
	}
	lock.Removal = true // a disk that takes no more writes is a reason, not an obstacle
	return errors.Join(w.explain(ctx, w.evict(ctx, e)), w.Close())
}

func (w *Worker) evict(ctx context.Context, e Eviction) error {
	if err := w.acquire(store.PurposeStop); err != nil {
		return err
	}
	if w.obs.Kept.Terminal() {
		return nil // it has ended meanwhile
	}
	// Written first: if this process ends now, the next one does not start the pod.
	if e.Shutdown != "" {
		if err := w.keepEvicted(w.obs.Kept.StopForShutdown(e.Shutdown, e.Message, time.Now())); err != nil {
			return err
		}
		return w.ofRuntime(w.stopOwned(ctx, e.Grace))
	}
	if err := w.keepEvicted(w.obs.Kept.Evict(e.Message, e.ForNode, time.Now())); err != nil {
		return err
	}
	w.emit(event.Warning, event.Evicted, "", e.Message)
	if err := w.stopOwned(ctx, e.Grace); err != nil {
		return w.ofRuntime(err)
	}
	if w.lock.Held == nil || !w.lock.Owned() {
		return nil // another command stops or removes it
	}
	return w.ofRuntime(w.clear(ctx))
}

// keepEvicted writes an eviction down. On a disk that takes no more writes the pod is
// evicted all the same: that is why.
func (w *Worker) keepEvicted(kept lifecycle.Kept) error {
	err := w.keep(kept)
	if store.CannotWrite(err) {
		w.obs.Kept, err = kept, nil
	}
	return err
}

// clear removes what an evicted pod has on disk, once how its containers have ended is
// written down.
func (w *Worker) clear(ctx context.Context) error {
	seen, err := w.Observe(ctx, w.plan.ID.UID)
	if err != nil {
		return err
	}
	evicted := w.obs.Kept
	w.obs = seen
	w.obs.Kept = evicted.WithContainers(slices.Concat(seen.Containers, evicted.Evicted.Containers))
	if err := w.keepEvicted(w.obs.Kept); err != nil {
		return err
	}
	var errs []error
	for _, c := range seen.Containers {
		if err := w.Client.RemoveContainer(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove container %s (%s): %w", c.Name, observe.ShortID(c.ID), err))
		}
	}
	if len(errs) == 0 { // a container that is there may use its volumes
		errs = append(errs, w.clearVolumes(ctx), w.keep(w.obs.Kept)) // now there is room for it
	}
	return errors.Join(errs...)
}

func (w *Worker) clearVolumes(ctx context.Context) error {
	dir, err := w.lockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	return volume.RemoveContents(ctx, w.plan.Layout, w.plan.ID.UID)
}

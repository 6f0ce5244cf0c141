package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// remover removes a pod.
type remover struct {
	pod   *pod.Pod
	lease *lease.Lease
	stop  *stopper
}

// RemoveOptions are those of the removal of one pod.
type RemoveOptions struct {
	Grace    *time.Duration // replaces the pod's own; nil for that
	KeepLogs bool
	// DeleteClaims are directories of the pod's claims that are deleted with it, except
	// those that another pod uses by then.
	DeleteClaims []string
	stopped      func() // called when everything has stopped, before it is removed
	// unstarted leaves a pod in place of which a container was started.
	unstarted bool
}

// Remove removes a pod and all that podrun made for it; k.Pod may be nil. An
// interrupted removal can be repeated. The result has the pod's status as it was when
// all of it had stopped; its error is of kind Refused where the sandbox is not
// podrun's, Runtime otherwise, or the cause that ended ctx.
func Remove(ctx context.Context, n *node.Node, k observe.Known, facts host.Facts, lock *store.PodLock, o RemoveOptions) Result {
	r := newRemover(pod.Known(n, k, facts), lock)
	result := Result{ID: k.ID, Outcome: OutcomeDeleted}
	o.stopped = func() {
		pod := r.pod.View(observe.Known{ID: k.ID, Pod: k.Pod}, true)
		result.Status, result.Containers = pod.Status, lifecycle.EndedContainers(pod, pod.Status)
	}
	if err := explain(ctx, r.pod, r.removeOwned(ctx, o)); err != nil {
		result.Outcome, result.Err = OutcomeFailed, err
	}
	return result
}

// RemoveStored removes what podrun keeps of a pod on this host if its runtime cannot be
// asked, and was stopped with all of its containers: the processes that are left in the pod's
// cgroup, the cgroup, the logs and the directory. It can be repeated; k.Pod may be nil. The
// error is of kind Runtime, or the cause that ended ctx.
func RemoveStored(ctx context.Context, n *node.Node, k observe.Known, facts host.Facts, lock *store.PodLock) error {
	err := newRemover(pod.Known(n, k, facts), lock).removeStored(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return pod.RuntimeError(k.ID, err)
}

// newRemover returns the remover of a pod, which acts under the lock.
func newRemover(p *pod.Pod, lock *store.PodLock) *remover {
	l := lease.New(p, lock)
	l.Ending = true
	return &remover{pod: p, lease: l, stop: &stopper{pod: p, lease: l, dooms: true}}
}

// removeStored removes what does not need the runtime: processes in the pod's cgroup, the
// cgroup, logs and directory.
func (w *remover) removeStored(ctx context.Context) error {
	err := w.lease.Acquire(store.PurposeRemove)
	if err == nil {
		err = w.removeGroups(ctx)
	}
	if err == nil {
		err = w.removeFiles(ctx, RemoveOptions{})
	}
	if err == nil {
		err = w.lease.Lock.Disown()
	}
	return err
}

// removeOwned makes this command the owner of a pod and removes it. Where another
// command takes it over, that one removes it, or it is removed already and the pod
// that has its name is another incarnation.
func (w *remover) removeOwned(ctx context.Context, o RemoveOptions) error {
	for {
		if err := w.lease.Acquire(store.PurposeRemove); err != nil {
			return err
		}
		err := w.remove(ctx, o)
		if err == nil {
			return w.lease.Lock.Disown()
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
		if removed, err := w.removedByOther(ctx); removed || err != nil {
			return err
		}
	}
}

// removedByOther reports whether another command, which took the pod over, has
// removed this incarnation of it.
func (w *remover) removedByOther(ctx context.Context) (bool, error) {
	r, err := w.lease.Lock.Owner()
	if err != nil || w.lease.Lock.Owned() {
		return false, err
	}
	if r != nil && r.Incarnation == w.lease.Lock.Incarnation && w.lease.Operates(r) {
		if err := w.lease.AwaitEnd(ctx, r, nil); !errors.Is(err, store.ErrChanged) {
			return false, err
		}
		if r, err = w.lease.Lock.Owner(); err != nil {
			return false, err
		}
	}
	if r != nil {
		return r.Incarnation != w.lease.Lock.Incarnation, nil
	}
	left, err := w.pod.Node.Observe(ctx, w.pod.Plan.ID.UID)
	if err != nil {
		return false, pod.RuntimeError(w.pod.Plan.ID, err)
	}
	return len(left.Sandboxes)+len(left.Containers) == 0, nil
}

// remove stops the pod and removes all of it, in the order in which it can be
// done again after any failure: the directory, by which the pod is found, last.
// The error is store.ErrChanged where another command took the pod over.
func (w *remover) remove(ctx context.Context, o RemoveOptions) error {
	var err error
	if w.pod.Observed, err = w.pod.Node.Observe(ctx, w.pod.Plan.ID.UID); err != nil {
		return pod.RuntimeError(w.pod.Plan.ID, err)
	}
	if err := w.pod.OnlyOurs(); err != nil {
		return err
	}
	if o.unstarted && lifecycle.AnyStarted(w.pod.Observed) {
		return nil
	}
	if err := w.pod.OpenJournal(); err != nil {
		return err
	}
	defer w.pod.Journal.Close()
	grace := w.pod.GracePeriod()
	if o.Grace != nil {
		grace = *o.Grace
	}
	err = w.stop.stopPod(ctx, grace)
	if errors.Is(err, store.ErrChanged) {
		return err
	}
	if err != nil {
		return pod.RuntimeError(w.pod.Plan.ID, err)
	}
	if err := w.keepRemoved(); err != nil {
		return err
	}
	if o.stopped != nil {
		o.stopped()
	}
	if err := w.removeObjects(ctx); err != nil {
		return err
	}
	faultpoint.At("remove/files")
	return w.removeFiles(ctx, o)
}

// keepRemoved records how the containers of a pod that has stopped ended, which the runtime
// forgets before the pod is removed. A disk that cannot be written does not prevent a removal.
func (w *remover) keepRemoved() error {
	if !w.stop.dooms || len(w.pod.Observed.Containers) == 0 {
		return nil
	}
	if err := w.pod.Keep(w.pod.Observed.Kept.WithRemoved(w.pod.Observed.Containers)); err != nil && !store.CannotWrite(err) {
		return err
	}
	return nil
}

// removeObjects removes what the runtime and the kernel have of a pod that has stopped: its
// sandboxes and, concurrently, its control groups, for whose removal the kubelet does not
// wait for that of the sandboxes either (SyncTerminatedPod in pkg/kubelet). After a killed
// podrun, the groups come last, because the runtime may still create a sandbox in them.
func (w *remover) removeObjects(ctx context.Context) error {
	var groups error
	removeGroups := func() {
		faultpoint.At("remove/groups")
		groups = w.removeGroups(ctx)
	}
	late := w.lease.Lock.Killed
	var beside sync.WaitGroup
	if !late {
		beside.Go(removeGroups)
	}
	err := w.removeSandboxes(ctx)
	if err == nil {
		err = w.removeLate(ctx)
	}
	if err == nil {
		err = w.removeUnreleased(ctx)
	}
	beside.Wait()
	if err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, groups)
		}
		return pod.RuntimeError(w.pod.Plan.ID, err)
	}
	if cause := context.Cause(ctx); cause != nil && groups == nil {
		return cause // the last call may have outlived it
	}
	if late {
		removeGroups()
	}
	if groups != nil {
		return pod.RuntimeError(w.pod.Plan.ID, groups)
	}
	return nil
}

// removeFiles removes the pod's logs and directory, as much of them as it can.
func (w *remover) removeFiles(ctx context.Context, o RemoveOptions) error {
	defer trace.Begin(ctx, "remove files", w.pod.Plan.ID.String())()
	var errs []error
	if !o.KeepLogs {
		errs = append(errs, w.removeLogs())
	}
	if !o.unstarted { // one that is applied again keeps its back-off
		errs = append(errs, imagepull.ForgetBackOff(w.pod.Plan.Layout.ImageBackOff(), w.pod.Plan.ID.UID))
	}
	switch {
	case w.stop.again: // its definition stays on disk
		errs = append(errs, w.underDirLock(ctx, volume.Empty))
	case len(o.DeleteClaims) > 0:
		errs = append(errs, w.removeClaims(ctx, o.DeleteClaims))
	default:
		errs = append(errs, w.removeDirs(ctx))
	}
	if o.unstarted && !w.stop.again {
		errs = append(errs, volume.DropClaims(ctx, w.pod.Plan.Volumes))
	}
	if err := errors.Join(errs...); err != nil {
		return pod.RuntimeError(w.pod.Plan.ID, err)
	}
	return nil
}

// removeClaims removes the pod's directory, and before it, while the pod can still be found
// if the removal is interrupted, the directories of its claims that no other pod uses. Its
// volumes are emptied first: the directory of all claims is locked during the rest.
func (w *remover) removeClaims(ctx context.Context, paths []string) error {
	return w.underDirLock(ctx, func(ctx context.Context, layout identity.Layout, uid string) error {
		if err := volume.Empty(ctx, layout, uid); err != nil {
			return err
		}
		used := func() (map[string]bool, error) {
			others, err := store.ClaimsOfOthers(layout, w.pod.Plan.ID, nil)
			paths := map[string]bool{}
			for path := range others {
				paths[path] = true
			}
			return paths, err
		}
		return volume.DeleteClaims(ctx, paths, used, func() error { return store.RemovePod(ctx, layout, uid) })
	})
}

func (w *remover) removeSandboxes(ctx context.Context) error {
	var errs []error
	for _, sb := range w.pod.Observed.Sandboxes {
		if err := w.pod.Node.Client.RemovePodSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", observe.ShortID(sb.ID), err))
		}
	}
	return errors.Join(errs...)
}

// removeLogs removes the pod's logs and the links to them.
func (w *remover) removeLogs() error {
	links, err := filepath.Glob(w.pod.Plan.Layout.LegacyLogs(w.pod.Plan.ID))
	if err != nil {
		return fmt.Errorf("list links to logs: %w", err)
	}
	logs := w.pod.Plan.Layout.Logs(w.pod.Plan.ID)
	var errs []error
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, logs+"/") {
			if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may remove it, too
				errs = append(errs, err)
			}
		}
	}
	if err := os.RemoveAll(logs); err != nil {
		errs = append(errs, fmt.Errorf("remove logs: %w", err))
	}
	return errors.Join(errs...)
}

// removeDirs removes the pod's directory.
func (w *remover) removeDirs(ctx context.Context) error {
	return w.underDirLock(ctx, store.RemovePod)
}

// underDirLock removes the pod's directory, or its content (volume.Empty).
func (w *remover) underDirLock(ctx context.Context, remove func(ctx context.Context, layout identity.Layout, uid string) error) error {
	dir, err := w.pod.LockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	faultpoint.At("remove/directory")
	defer faultpoint.At("remove/record")
	return remove(ctx, w.pod.Plan.Layout, w.pod.Plan.ID.UID)
}

// removeGroups removes the pod's control group, and those that pods share if
// this was the last one in them.
func (w *remover) removeGroups(ctx context.Context) error {
	defer trace.Begin(ctx, "remove control groups", w.pod.Plan.ID.String())()
	return w.pod.Node.RemoveUnderNodeLock(ctx, func() error { return cgroup.Remove(ctx, w.pod.Plan.Cgroup) })
}

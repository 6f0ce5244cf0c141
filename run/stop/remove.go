package stop

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
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// Remover removes a pod.
type Remover struct {
	Pod   *pod.Pod
	lease *lease.Lease
	Stop  *Stopper
}

// RemoverWith returns the remover of the stopper's pod.
func RemoverWith(s *Stopper) *Remover { return &Remover{Pod: s.pod, lease: s.lease, Stop: s} }

// RemoveOptions are those of the removal of one pod.
type RemoveOptions struct {
	Grace    *time.Duration // replaces the pod's own; nil for that
	KeepLogs bool
	// DeleteClaims are directories of the pod's claims that are deleted with it, except
	// those that another pod uses by then.
	DeleteClaims []string
	Stopped      func() // called when everything has stopped, before it is removed
	// Unstarted leaves a pod in place of which a container was started.
	Unstarted bool
}

// NewRemover returns the remover of a pod, which acts under the lock.
func NewRemover(p *pod.Pod, lock *store.PodLock) *Remover {
	l := lease.New(p, lock)
	l.Ending = true
	s := NewStopper(l)
	s.Removes = true
	return RemoverWith(s)
}

// Stored removes what does not need the runtime: processes in the pod's cgroup, the
// cgroup, logs and directory.
func (r *Remover) Stored(ctx context.Context) error {
	err := r.lease.Acquire(store.PurposeRemove)
	if err == nil {
		err = r.Groups(ctx)
	}
	if err == nil {
		err = r.removeFiles(ctx, RemoveOptions{})
	}
	if err == nil {
		err = r.lease.Lock.Disown()
	}
	return err
}

// Owned makes this command the owner of a pod and removes it. Where another
// command takes it over, that one removes it, or it is removed already and the pod
// that has its name is another incarnation.
func (r *Remover) Owned(ctx context.Context, o RemoveOptions) error {
	for {
		if err := r.lease.Acquire(store.PurposeRemove); err != nil {
			return err
		}
		err := r.Remove(ctx, o)
		if err == nil {
			return r.lease.Lock.Disown()
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
		if removed, err := r.removedByOther(ctx); removed || err != nil {
			return err
		}
	}
}

// removedByOther reports whether another command, which took the pod over, has
// removed this incarnation of it.
func (r *Remover) removedByOther(ctx context.Context) (bool, error) {
	owner, err := r.lease.Lock.Owner()
	if err != nil || r.lease.Lock.Owned() {
		return false, err
	}
	if owner != nil && owner.Incarnation == r.lease.Lock.Incarnation && r.lease.Operates(owner) {
		if err := r.lease.AwaitEnd(ctx, owner, nil); !errors.Is(err, store.ErrChanged) {
			return false, err
		}
		if owner, err = r.lease.Lock.Owner(); err != nil {
			return false, err
		}
	}
	if owner != nil {
		return owner.Incarnation != r.lease.Lock.Incarnation, nil
	}
	left, err := r.Pod.Node.Observe(ctx, r.Pod.Plan.ID.UID)
	if err != nil {
		return false, pod.RuntimeError(r.Pod.Plan.ID, err)
	}
	return len(left.Sandboxes)+len(left.Containers) == 0, nil
}

// Remove stops the pod and removes all of it, in the order in which it can be
// done again after any failure: the directory, by which the pod is found, last.
// The error is store.ErrChanged where another command took the pod over.
func (r *Remover) Remove(ctx context.Context, o RemoveOptions) error {
	var err error
	if r.Pod.Observed, err = r.Pod.Node.Observe(ctx, r.Pod.Plan.ID.UID); err != nil {
		return pod.RuntimeError(r.Pod.Plan.ID, err)
	}
	if err := r.Pod.OnlyOurs(); err != nil {
		return err
	}
	if o.Unstarted && lifecycle.AnyStarted(r.Pod.Observed) {
		return nil
	}
	if err := r.Pod.OpenJournal(); err != nil {
		return err
	}
	defer r.Pod.Journal.Close()
	grace := r.Pod.GracePeriod()
	if o.Grace != nil {
		grace = *o.Grace
	}
	err = r.Stop.Pod(ctx, grace)
	if errors.Is(err, store.ErrChanged) {
		return err
	}
	if err != nil {
		return pod.RuntimeError(r.Pod.Plan.ID, err)
	}
	if err := r.keepRemoved(); err != nil {
		return err
	}
	if o.Stopped != nil {
		o.Stopped()
	}
	if err := r.removeObjects(ctx); err != nil {
		return err
	}
	faultpoint.At("remove/files")
	return r.removeFiles(ctx, o)
}

// keepRemoved records how the containers of a pod that has stopped ended, which the runtime
// forgets before the pod is removed. A disk that cannot be written does not prevent a removal.
func (r *Remover) keepRemoved() error {
	if !r.Stop.Removes || len(r.Pod.Observed.Containers) == 0 {
		return nil
	}
	if err := r.Pod.Keep(r.Pod.Observed.Kept.WithRemoved(r.Pod.Observed.Containers)); err != nil && !store.CannotWrite(err) {
		return err
	}
	return nil
}

// removeObjects removes what the runtime and the kernel have of a pod that has stopped: its
// sandboxes and, concurrently, its control groups, for whose removal the kubelet does not
// wait for that of the sandboxes either (SyncTerminatedPod in pkg/kubelet). After a killed
// podrun, the groups come last, because the runtime may still create a sandbox in them.
func (r *Remover) removeObjects(ctx context.Context) error {
	var groups error
	removeGroups := func() {
		faultpoint.At("remove/groups")
		groups = r.Groups(ctx)
	}
	late := r.lease.Lock.Killed
	var beside sync.WaitGroup
	if !late {
		beside.Go(removeGroups)
	}
	err := r.removeSandboxes(ctx)
	if err == nil {
		err = r.removeLate(ctx)
	}
	if err == nil {
		err = r.removeUnreleased(ctx)
	}
	beside.Wait()
	if err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, groups)
		}
		return pod.RuntimeError(r.Pod.Plan.ID, err)
	}
	if cause := context.Cause(ctx); cause != nil && groups == nil {
		return cause // the last call may have outlived it
	}
	if late {
		removeGroups()
	}
	if groups != nil {
		return pod.RuntimeError(r.Pod.Plan.ID, groups)
	}
	return nil
}

// removeFiles removes the pod's logs and directory, as much of them as it can.
func (r *Remover) removeFiles(ctx context.Context, o RemoveOptions) error {
	defer trace.Begin(ctx, "remove files", r.Pod.Plan.ID.String())()
	var errs []error
	if !o.KeepLogs {
		errs = append(errs, r.Logs())
	}
	if !o.Unstarted { // one that is applied again keeps its back-off
		errs = append(errs, imagepull.ForgetBackOff(r.Pod.Plan.Layout.ImageBackOff(), r.Pod.Plan.ID.UID))
	}
	switch {
	case r.Stop.Recreates: // its definition stays on disk
		errs = append(errs, r.underDirLock(ctx, volume.Empty))
	case len(o.DeleteClaims) > 0:
		errs = append(errs, r.removeClaims(ctx, o.DeleteClaims))
	default:
		errs = append(errs, r.Dirs(ctx))
	}
	if o.Unstarted && !r.Stop.Recreates {
		errs = append(errs, volume.DropClaims(ctx, r.Pod.Plan.Volumes))
	}
	if err := errors.Join(errs...); err != nil {
		return pod.RuntimeError(r.Pod.Plan.ID, err)
	}
	return nil
}

// removeClaims removes the pod's directory, and before it, while the pod can still be found
// if the removal is interrupted, the directories of its claims that no other pod uses. Its
// volumes are emptied first: the directory of all claims is locked during the rest.
func (r *Remover) removeClaims(ctx context.Context, paths []string) error {
	return r.underDirLock(ctx, func(ctx context.Context, layout identity.Layout, uid string) error {
		if err := volume.Empty(ctx, layout, uid); err != nil {
			return err
		}
		used := func() (map[string]bool, error) {
			others, err := store.ClaimsOfOthers(layout, r.Pod.Plan.ID, nil)
			paths := map[string]bool{}
			for path := range others {
				paths[path] = true
			}
			return paths, err
		}
		return volume.DeleteClaims(ctx, paths, used, func() error { return store.RemovePod(ctx, layout, uid) })
	})
}

func (r *Remover) removeSandboxes(ctx context.Context) error {
	var errs []error
	for _, sb := range r.Pod.Observed.Sandboxes {
		if err := r.Pod.Node.Client.RemovePodSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", observe.ShortID(sb.ID), err))
		}
	}
	return errors.Join(errs...)
}

// Logs removes the pod's logs and the links to them.
func (r *Remover) Logs() error {
	links, err := filepath.Glob(r.Pod.Plan.Layout.LegacyLogs(r.Pod.Plan.ID))
	if err != nil {
		return fmt.Errorf("list links to logs: %w", err)
	}
	logs := r.Pod.Plan.Layout.Logs(r.Pod.Plan.ID)
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

// Dirs removes the pod's directory.
func (r *Remover) Dirs(ctx context.Context) error {
	return r.underDirLock(ctx, store.RemovePod)
}

// underDirLock removes the pod's directory, or its content (volume.Empty).
func (r *Remover) underDirLock(ctx context.Context, remove func(ctx context.Context, layout identity.Layout, uid string) error) error {
	dir, err := r.Pod.LockDir(ctx)
	if err != nil {
		return err
	}
	defer dir.Unlock()
	faultpoint.At("remove/directory")
	defer faultpoint.At("remove/record")
	return remove(ctx, r.Pod.Plan.Layout, r.Pod.Plan.ID.UID)
}

// Groups removes the pod's control group, and those that pods share if
// this was the last one in them.
func (r *Remover) Groups(ctx context.Context) error {
	defer trace.Begin(ctx, "remove control groups", r.Pod.Plan.ID.String())()
	return r.Pod.Node.RemoveUnderNodeLock(ctx, func() error { return cgroup.Remove(ctx, r.Pod.Plan.Cgroup) })
}

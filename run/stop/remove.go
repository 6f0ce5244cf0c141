package stop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
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

// RemoveOptions are the options for removing one pod.
type RemoveOptions struct {
	Grace    *time.Duration // replaces the pod's grace period; nil keeps it
	KeepLogs bool
	// DeleteClaims are the directories of claims that Remove deletes with the pod, except those that
	// another pod has started to use.
	DeleteClaims []string
	Stopped      func() // called when all containers have stopped, before they are removed
	// Report is called after Stopped with the pod's status; see reconcile.Remove.
	Report func(corev1.PodStatus)
	// Unstarted keeps a pod if one of its containers has been started.
	Unstarted bool
}

// NewRemover returns a remover of a pod. The pod's lock must be held.
func NewRemover(p *pod.Pod, lock *store.PodLock) *Remover {
	l := lease.New(p, lock)
	l.Ending = true
	s := NewStopper(l)
	s.Removes = true
	return RemoverWith(s)
}

// Stored removes the parts of a pod whose removal does not require the runtime: the processes in the
// pod's cgroup, the cgroup, the logs and the directory.
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

// Owned makes this command the owner of a pod and removes it. If another command takes over the pod,
// Owned waits for that command and, if the pod still exists, takes over the pod again. It returns
// nil when this incarnation of the pod has been removed, even if a new pod has the same name.
func (r *Remover) Owned(ctx context.Context, o RemoveOptions) error {
	for {
		err := r.lease.Acquire(store.PurposeRemove)
		if err == nil {
			err = r.Remove(ctx, o)
			if err == nil {
				return r.lease.Lock.Disown()
			}
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
		if removed, err := r.removedByOther(ctx); removed || err != nil {
			return err
		}
	}
}

// removedByOther reports whether another command took over this incarnation of the pod and removed it.
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

// Remove stops and removes the pod, in an order that allows podrun to repeat the removal after any
// failure. It removes the directory last, because podrun finds the pod by its directory. The error
// is store.ErrChanged if another command took over the pod.
func (r *Remover) Remove(ctx context.Context, o RemoveOptions) error {
	var err error
	if r.Pod.Observed, err = r.Pod.Node.Observe(ctx, r.Pod.Plan.ID.UID); err != nil {
		return pod.RuntimeError(r.Pod.Plan.ID, err)
	}
	if err := r.Pod.CheckManaged(); err != nil {
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
	if r.Stop.Recreates {
		// If podrun is interrupted before it recreates the pod, the containers that it has killed must run again.
		if err := r.Pod.RecordRestarts(lifecycle.RestartChanged, r.Pod.RunningIDs()...); err != nil {
			return err
		}
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
	if err := r.removeObjects(ctx, o); err != nil {
		return err
	}
	faultpoint.At("remove/files")
	return r.removeFiles(ctx, o)
}

// keepRemoved records the exits of a stopped pod's containers, because the removal deletes the
// containers from the runtime before it removes the pod's directory. It ignores two errors that must
// not prevent a removal: the file system is not writable, or a newer podrun version wrote the state
// file.
func (r *Remover) keepRemoved() error {
	if !r.Stop.Removes || len(r.Pod.Observed.Containers) == 0 {
		return nil
	}
	err := r.Pod.Keep(r.Pod.Observed.Kept.WithRemoved(r.Pod.Observed.Containers))
	if store.CannotWrite(err) || store.IsNewer(err) {
		return nil
	}
	return err
}

// removeObjects removes the sandboxes of a stopped pod and, concurrently, its cgroups and the data of its
// containers. The kubelet does not wait for the sandboxes before it removes the cgroups either
// (SyncTerminatedPod in pkg/kubelet). If the last owner was killed, removeObjects removes the cgroups last
// and keeps the data for removeFiles, because the runtime may still create a sandbox or start a container.
func (r *Remover) removeObjects(ctx context.Context, o RemoveOptions) error {
	var groups error
	late := r.lease.Lock.Killed
	removeGroups := func() {
		faultpoint.At("remove/groups")
		if late {
			groups = r.GroupsUnanswered(ctx)
		} else {
			groups = r.Groups(ctx)
		}
	}
	var beside sync.WaitGroup
	if !late {
		beside.Go(removeGroups)
		beside.Go(func() { r.removeData(ctx, o) })
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
		// The last call may have completed although ctx has ended.
		return cause
	}
	if late {
		removeGroups()
	}
	if groups != nil {
		return pod.RuntimeError(r.Pod.Plan.ID, groups)
	}
	return nil
}

// removeData removes the pod's logs and the files that only its containers used. It ignores errors,
// because removeFiles removes all remaining files.
func (r *Remover) removeData(ctx context.Context, o RemoveOptions) {
	faultpoint.At("remove/data")
	defer trace.Begin(ctx, "remove data", r.Pod.Plan.ID.String())()
	if !o.KeepLogs {
		_ = r.Logs()
	}
	dir, err := r.Pod.LockDir(ctx)
	if err != nil {
		return
	}
	defer dir.Unlock()
	_ = volume.RemoveData(ctx, r.Pod.Plan.Layout, r.Pod.Plan.ID.UID)
}

// removeFiles removes the pod's logs and directory. It continues after errors.
func (r *Remover) removeFiles(ctx context.Context, o RemoveOptions) error {
	defer trace.Begin(ctx, "remove files", r.Pod.Plan.ID.String())()
	var errs []error
	if !o.KeepLogs {
		errs = append(errs, r.Logs())
	}
	// A pod that was not started keeps the back-off of its image pulls, because the user may apply it again.
	if !o.Unstarted {
		errs = append(errs, imagepull.ForgetBackOff(r.Pod.Plan.Layout.ImageBackOff(), r.Pod.Plan.ID.UID))
	}
	switch {
	// The pod's definition remains on disk.
	case r.Stop.Recreates:
		errs = append(errs, r.underDirLock(ctx, volume.RemoveForRecreate))
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

// removeClaims first empties the pod's volumes, then removes the directories of claims that no other
// pod uses, and finally the pod's directory. It removes the pod's directory last, so that podrun can
// still find the pod if the removal is interrupted. It empties the volumes first, because the other
// steps lock the directory of all claims and must be short.
func (r *Remover) removeClaims(ctx context.Context, paths []string) error {
	return r.underDirLock(ctx, func(ctx context.Context, layout identity.Layout, uid string) error {
		if err := volume.RemoveForRecreate(ctx, layout, uid); err != nil {
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

// removeSandboxes removes the observed sandboxes of the pod. It continues after errors.
func (r *Remover) removeSandboxes(ctx context.Context) error {
	var errs []error
	for _, sb := range r.Pod.Observed.Sandboxes {
		if err := RemoveSandbox(ctx, r.Pod.Node.Client, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", observe.ShortID(sb.ID), err))
		}
	}
	return errors.Join(errs...)
}

// Logs removes the pod's logs and the links to them.
func (r *Remover) Logs() error {
	prefix, suffix := identity.LegacyLogs(r.Pod.Plan.ID)
	links, err := hostfile.Entries(r.Pod.Plan.Layout.ContainerLogsDir, prefix, suffix)
	if err != nil {
		return fmt.Errorf("list links to logs: %w", err)
	}
	logs := r.Pod.Plan.Layout.Logs(r.Pod.Plan.ID)
	var errs []error
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, logs+"/") {
			// Another process may have already removed the link.
			if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// underDirLock locks the directory of the pod and calls remove, which removes the directory or
// its content (volume.Empty).
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

// Groups removes the pod's cgroup. It also removes shared parent cgroups if this was the last pod in
// them.
func (r *Remover) Groups(ctx context.Context) error { return r.groups(ctx, cgroup.Remove) }

// GroupsUnanswered is Groups for a pod whose sandbox the runtime may still be creating.
func (r *Remover) GroupsUnanswered(ctx context.Context) error {
	return r.groups(ctx, cgroup.RemoveUnanswered)
}

func (r *Remover) groups(ctx context.Context, remove func(context.Context, cgroup.Plan) error) error {
	defer trace.Begin(ctx, "remove control groups", r.Pod.Plan.ID.String())()
	return r.Pod.Node.RemoveUnderNodeLock(ctx, func() error { return remove(ctx, r.Pod.Plan.Cgroup) })
}

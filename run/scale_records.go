package run

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// WorkloadRecord is the number of pods that a workload must have.
type WorkloadRecord = store.WorkloadRecord

// recordScale records the number of pods. The function restore writes the previous record again, unless
// another command has changed the record since.
func recordScale(ctx context.Context, n *node.Node, w *workload, of manifest.Workload, count int32) (r store.WorkloadRecord, restore func() error, err error) {
	r = store.WorkloadRecord{ID: w.id, Kind: w.kind, Replicas: count, Written: of.Written, Origin: w.origin, Change: store.RandomHex(8)}
	if w.record != nil {
		r.Written = w.record.Written
	}
	c, err := w.template()
	if err == nil {
		err = r.SetTemplate(c)
	}
	if err != nil {
		return r, nil, err
	}
	restore, err = writeWorkload(ctx, n, r)
	return r, restore, err
}

// writeWorkload writes a record. The function restore writes the previous record again, unless
// another command has changed the record since.
func writeWorkload(ctx context.Context, n *node.Node, r store.WorkloadRecord) (restore func() error, err error) {
	lock, err := lockWorkloads(ctx, n)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	was, err := store.ReadWorkload(n.Layout(), r.ID)
	if err != nil {
		n.WarnOnce(problem.WarningOf(fmt.Errorf("%w; this command replaces the record", err)))
	}
	if err := store.WriteWorkload(n.Layout(), r); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := wait.CleanupContext(ctx, UndoTimeout)
		defer cancel()
		lock, err := lockWorkloads(ctx, n)
		if err != nil {
			return err
		}
		defer lock.Unlock()
		is, err := store.ReadWorkload(n.Layout(), r.ID)
		switch {
		case err != nil || is == nil || is.Change != r.Change:
			return err
		case was == nil:
			return store.RemoveWorkload(n.Layout(), r.ID)
		}
		return store.WriteWorkload(n.Layout(), *was)
	}, nil
}

func lockWorkloads(ctx context.Context, n *node.Node) (*store.FileLock, error) {
	return store.Lock(ctx, n.Layout().Locks().Workloads(), n.Holder(), nil)
}

// removeSurplus removes the pods of a workload that exceed the number in its record. If there is no
// record, it removes none.
func removeSurplus(ctx context.Context, n *node.Node, kind string, id identity.Pod) ([]Result, error) {
	record, err := store.ReadWorkload(n.Layout(), id)
	if record == nil || err != nil {
		return nil, err
	}
	return removeReplicas(ctx, n, kind, id, record.Replicas)
}

// removeReplicas removes the pods of a workload whose index is at least n.
func removeReplicas(ctx context.Context, n *node.Node, kind string, id identity.Pod, count int32) ([]Result, error) {
	replicas, err := store.StoredReplicas(n.Layout(), kind, id)
	if err != nil {
		return nil, err
	}
	var surplus []Known
	for _, r := range replicas {
		if r.Index >= int(count) {
			surplus = append(surplus, Known{ID: r.ID, Pod: r.Checkpoint.Pod, Definition: r.Checkpoint.Definition})
		}
	}
	interrupted, err := interruptedRemovals(n, id, count)
	if err != nil {
		return nil, err
	}
	if surplus = append(surplus, interrupted...); len(surplus) == 0 {
		return nil, nil
	}
	return DeletePods(ctx, n, surplus, DeleteOptions{Found: true})
}

// interruptedRemovals returns the pods of a workload whose index is at least n, and of which a killed process has
// left only the owner record.
func interruptedRemovals(n *node.Node, id identity.Pod, count int32) (out []Known, err error) {
	replicas, err := store.InterruptedRemovals(n.Layout(), id)
	for _, r := range replicas {
		if r.Index >= int(count) {
			out = append(out, Known{ID: r.ID})
		}
	}
	return out, err
}

// recordWorkloads writes the numbers of pods of the workloads that objects defines. The function ended
// restores the previous records: those of workloads without pods or, if all is true, all of them.
func recordWorkloads(ctx context.Context, n *node.Node, objects *manifest.Objects) (ended func(all bool) error, err error) {
	var undo []func(all bool) error
	ended = func(all bool) error {
		var errs []error
		for _, one := range undo {
			errs = append(errs, one(all))
		}
		return errors.Join(errs...)
	}
	for _, w := range objects.Workloads {
		r, err := newRecord(n, w, objects)
		if err != nil {
			return ended, err
		}
		restore, err := writeWorkload(ctx, n, r)
		if err != nil {
			return ended, err
		}
		undo = append(undo, func(all bool) error {
			if !all && w.Replicas > 0 {
				replicas, err := store.StoredReplicas(n.Layout(), w.Kind, w.ID())
				if err != nil {
					return err
				}
				all = len(replicas) == 0
			}
			if all {
				return restore()
			}
			return nil
		})
	}
	return ended, nil
}

// RecordWorkload writes the number of pods of a workload that a file of podrun serve defines. It does
// nothing if another command has changed the record since the caller read it. The argument was is the
// record that the caller read; it has no ID if there was no record.
func RecordWorkload(ctx context.Context, n *node.Node, w manifest.Workload, objects *manifest.Objects, origin string, count int32, was store.WorkloadRecord) error {
	r, err := newRecord(n, w, objects)
	if err != nil {
		return err
	}
	r.Replicas = count
	r.Origin = origin
	if requestsSame(r, was) {
		// The number has not changed, so a running Scale must not treat this record as a new
		// request.
		r.Change = was.Change
		if was.Origin == r.Origin && was.Template == r.Template {
			return nil
		}
	}
	lock, err := lockWorkloads(ctx, n)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	is, err := store.ReadWorkload(n.Layout(), w.ID())
	if err == nil && (is == nil && was.Change != "" || is != nil && is.Change != was.Change) {
		return nil
	}
	return store.WriteWorkload(n.Layout(), r)
}

// requestsSame reports whether a record requests the same number of pods of the same workload as the previous one.
func requestsSame(is, was store.WorkloadRecord) bool {
	return was.Kind == is.Kind && was.Replicas == is.Replicas && !was.Deleted && ptr.Equal(was.Written, is.Written)
}

// newRecord returns the record of a workload in the input.
func newRecord(n *node.Node, w manifest.Workload, objects *manifest.Objects) (store.WorkloadRecord, error) {
	r := store.WorkloadRecord{ID: w.ID(), Kind: w.Kind, Replicas: w.Replicas, Written: w.Written, Change: store.RandomHex(8)}
	c := manifest.Referred(w.First.Object, objects)
	c.Definition = w.First.Definition
	c.InMemory = w.First.SecretsInMemory || n.Settings.Secrets == nodeconfig.SecretsInMemory
	return r, r.SetTemplate(c)
}

// RemoveSurplus removes pods that earlier definitions of the workloads in objects requested and that
// the current definitions do not request. It must be called after Apply.
func RemoveSurplus(ctx context.Context, n *node.Node, objects *manifest.Objects) (results []Result, err error) {
	honoured := map[identity.Pod]bool{}
	for _, w := range objects.Workloads {
		honoured[w.ID()] = true
		removed, failed := removeSurplus(ctx, n, w.Kind, w.ID())
		results, err = append(results, removed...), errors.Join(err, failed)
	}
	for _, p := range objects.Pods {
		kind, name := p.WorkloadRef()
		id := identity.Pod{Namespace: p.Object.Namespace, Name: name}
		if !manifest.IsReplicated(kind) || honoured[id] {
			continue
		}
		// The workload now has only one pod.
		r, failed := store.ReadWorkload(n.Layout(), id)
		if r != nil {
			removed, f := removeReplicas(ctx, n, r.Kind, id, 1)
			results, failed = append(results, removed...), errors.Join(f, ForgetWorkload(ctx, n, id, r.Change))
		}
		err = errors.Join(err, failed)
	}
	return results, err
}

// MissingReplicas returns the pods that a workload must have and that do not exist, with the objects to
// which they refer.
func MissingReplicas(n *node.Node, r store.WorkloadRecord) (*manifest.Objects, error) {
	w, err := readWorkload(n, r.Kind, r.ID)
	if err != nil {
		return nil, err
	}
	if w.complete(r.Replicas) {
		return &manifest.Objects{}, nil
	}
	objects, err := w.scaled(r.Replicas)
	if err != nil {
		return nil, err
	}
	_ = serveClaims(n, objects, nil)
	return w.missing(objects, false), nil
}

// complete reports whether the first n pods exist.
func (w *workload) complete(n int32) bool {
	count := 0
	for _, r := range w.replicas {
		if r.Index < int(n) && !r.Ending {
			count++
		}
	}
	return count == int(n)
}

// ForgetWorkload removes a record, unless another command has changed it.
func ForgetWorkload(ctx context.Context, n *node.Node, id identity.Pod, change string) error {
	lock, err := lockWorkloads(ctx, n)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	r, err := store.ReadWorkload(n.Layout(), id)
	if err != nil || r == nil || r.Change != change {
		return err
	}
	return store.RemoveWorkload(n.Layout(), id)
}

// Scaled returns a function for manifest.Options that reads the number of pods that a command has
// set for a workload.
func Scaled(layout identity.Layout) func(kind string, id identity.Pod) (int32, bool) {
	return func(kind string, id identity.Pod) (int32, bool) {
		r, err := store.ReadWorkload(layout, id)
		if err != nil || r == nil || r.Kind != kind || r.Deleted {
			return 0, false
		}
		return r.Replicas, true
	}
}

// DeleteWorkloads marks the selected workloads as deleted, so that podrun serve does not start their
// pods again. The function ended removes the marks of workloads that no longer have pods.
func DeleteWorkloads(ctx context.Context, n *node.Node, selected func(store.WorkloadRecord) bool) (marked []store.WorkloadRecord, ended func() error, err error) {
	ended = func() error { return nil }
	records, unreadable, err := store.ReadWorkloads(n.Layout(), "")
	if unreadable != nil {
		n.WarnOnce(problem.WarningOf(unreadable))
	}
	if err != nil {
		return nil, ended, err
	}
	ended = func() error {
		var errs []error
		for _, r := range marked {
			if err := completeRemovals(ctx, n, r.ID); err != nil {
				errs = append(errs, err)
				continue
			}
			replicas, err := store.StoredReplicas(n.Layout(), r.Kind, r.ID)
			if err == nil && len(replicas) == 0 {
				err = ForgetWorkload(context.WithoutCancel(ctx), n, r.ID, r.Change)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	for _, r := range records {
		if !selected(r) {
			continue
		}
		r.Deleted = true
		r.Replicas = 0
		r.Change = store.RandomHex(8)
		if _, err := writeWorkload(ctx, n, r); err != nil {
			return marked, ended, err
		}
		marked = append(marked, r)
	}
	return marked, ended, nil
}

// completeRemovals completes the interrupted removals of a deleted workload's replicas.
func completeRemovals(ctx context.Context, n *node.Node, workload identity.Pod) error {
	left, err := interruptedRemovals(n, workload, 0)
	if err != nil || len(left) == 0 {
		return err
	}
	results, err := DeletePods(ctx, n, left, DeleteOptions{Found: true})
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

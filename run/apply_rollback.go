package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// restoreLimit limits how long a command may take to restore a pod, in addition to the pod's grace period.
const restoreLimit = 2 * time.Minute

// restoration restores the earlier definitions of pods whose update fails (ApplyOptions.Rollback).
type restoration struct {
	node    *node.Node
	options ApplyOptions
	pods    []manifest.Pod
	// origins are the origins of the pods' earlier definitions, by namespace and name.
	origins map[string]store.Origin
}

// newRestoration reads the origins of the pods' definitions. It returns nil unless o.Rollback is set.
func newRestoration(n *node.Node, objects *manifest.Objects, o ApplyOptions) (*restoration, error) {
	if !o.Rollback {
		return nil, nil
	}
	r := &restoration{node: n, options: o, pods: objects.Pods, origins: map[string]store.Origin{}}
	for _, p := range objects.Pods {
		id := identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name}
		owner, err := store.ReadOwner(n.Layout(), id)
		if err != nil {
			return nil, err
		}
		if owner != nil && owner.Origin != nil {
			r.origins[id.String()] = store.Origin{Command: owner.Origin.Command}
		}
	}
	return r, nil
}

// restoreFailed restores the pods whose results are failures, and the other replicas of their workloads. It adds its own
// errors to the results. The pods' locks must be free.
func (r *restoration) restoreFailed(ctx context.Context, targets []prepare.Target, results []Result) {
	if r == nil {
		return
	}
	failed := map[string]identity.Pod{} // by workload or pod
	for i, result := range results {
		if result.Err != nil && !reconcile.IsSuperseded(result.Err) {
			failed[r.group(i)] = result.ID
		}
	}
	var all sync.WaitGroup
	for i, t := range targets {
		by, is := failed[r.group(i)]
		if !is || t.Change != prepare.ChangeUpdate && t.Change != prepare.ChangeReplace || reconcile.IsSuperseded(results[i].Err) {
			continue
		}
		if results[i].Err == nil {
			results[i].Outcome, results[i].Err = OutcomeFailed, &problem.Error{Kind: problem.Failed, Object: "pod " + results[i].ID.String(),
				Err: fmt.Errorf("was rolled back, because pod %s has failed", by)}
		}
		all.Go(func() {
			if err := r.restore(ctx, t, results[i].Err); err != nil {
				results[i].Err = errors.Join(results[i].Err, &problem.Error{Kind: problem.Runtime, Object: "pod " + results[i].ID.String(), Op: "restore its earlier definition", Err: err,
					Hint: "run 'podrun rollout undo " + results[i].ID.Args() + "' to retry"})
			}
		})
	}
	all.Wait()
}

// group returns the workload of a pod that is one of several replicas; otherwise the pod.
func (r *restoration) group(i int) string {
	p := r.pods[i]
	id := identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name}
	if !p.Definition.Honours() {
		return "Pod " + id.String()
	}
	return p.Definition.Kind + " " + identity.Pod{Namespace: id.Namespace, Name: p.Definition.WorkloadName(id.Name)}.String()
}

// restore restores the definition that a pod had before the command.
func (r *restoration) restore(ctx context.Context, t prepare.Target, why error) error {
	was, n := t.Was, r.node
	if was.Pod == nil || was.Made.Pod == nil || was.Made.SecretsLost || was.Ending {
		return errors.New("it is not known")
	}
	limit := restoreLimit
	if s := was.Pod.Spec.TerminationGracePeriodSeconds; s != nil {
		limit += time.Duration(*s) * time.Second
	}
	ctx, cancel := wait.CleanupContext(ctx, limit)
	defer cancel()
	if was.Observed != nil {
		var err error
		if was.Made.Images, err = reconcile.ImagesOf(ctx, n, was.Made.Pod, was.Observed); err != nil {
			return err
		}
	}
	id := t.Plan.ID
	lock, err := n.Locks().LockPod(ctx, id, store.PurposeRun)
	defer lock.Release()
	if err != nil {
		return err
	}
	now, err := store.ReadCheckpoint(n.Layout(), id.UID)
	if err != nil || now == nil {
		return errors.Join(err, errors.New("the pod was deleted"))
	}
	changed := now.Hash() != was.Made.Hash()
	if changed && now.Hash() != t.Plan.Checkpoint.Hash() {
		return errors.New("another command has changed the pod")
	}
	objects := was.Made.Objects()
	locks := store.PodLocks{id.String(): lock}
	o := ApplyOptions{AllowKubelet: r.options.AllowKubelet, KeepOnFailure: true, Force: changed, KeepUID: true, Origin: r.origins[id.String()]}
	restored, err := applyLocked(ctx, n, objects, locks, o)
	if err != nil {
		return err
	}
	if restored[0].Err != nil || !changed && restored[0].Outcome == OutcomeUnchanged {
		return restored[0].Err
	}
	message := "podrun has restored the earlier definition, because the update failed: " + event.Cut(why.Error())
	j := store.Journal{Pod: id, Next: n.Emit}
	err = j.Open(n.Layout())
	j.Emit(event.Event{Type: event.Warning, Reason: event.RolledBack, Message: message})
	n.SendWarnings(problem.List{{Object: "pod " + id.String(), Reason: event.RolledBack, Warning: true, Message: "podrun has restored its earlier definition"}})
	return errors.Join(err, j.Close())
}

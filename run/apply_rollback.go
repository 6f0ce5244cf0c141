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

// restore restores the definition that a pod had before the command. It repeats the attempt if the runtime or the host fails,
// because the command cannot leave this to a supervisor.
func (r *restoration) restore(ctx context.Context, t prepare.Target, why error) error {
	was := t.Was
	if was.Pod == nil || was.Made.Pod == nil || was.Made.SecretsLost || was.Ending {
		return errors.New("it is not known")
	}
	limit := restoreLimit
	if s := was.Pod.Spec.TerminationGracePeriodSeconds; s != nil {
		limit += time.Duration(*s) * time.Second
	}
	ctx, cancel := wait.CleanupContext(ctx, limit)
	defer cancel()
	a := restoring{restoration: r, target: t, made: was.Made}
	for delay := firstRestore; ; delay = wait.Next(delay, firstRestore, lastRestore) {
		err := a.try(ctx)
		if err == nil {
			break
		}
		if e, ok := errors.AsType[*problem.Error](err); ok && e.Kind != problem.Runtime || wait.Sleep(ctx, delay) != nil {
			return err
		}
	}
	if !a.acted {
		return nil
	}
	id := t.Plan.ID
	message := "podrun has restored the earlier definition, because the update failed: " + event.Cut(why.Error())
	j := store.Journal{Pod: id, Next: r.node.Emit}
	err := j.Open(r.node.Layout())
	j.Emit(event.Event{Type: event.Warning, Reason: event.RolledBack, Message: message})
	r.node.SendWarnings(problem.List{{Object: "pod " + id.String(), Reason: event.RolledBack, Warning: true, Message: "podrun has restored its earlier definition"}})
	return errors.Join(err, j.Close())
}

// The delays between attempts to restore a pod.
const (
	firstRestore = time.Second
	lastRestore  = 10 * time.Second
)

// restoring is the restoration of one pod.
type restoring struct {
	*restoration
	target prepare.Target
	made   manifest.Checkpoint // the earlier definition
	// acted is true if the update had taken effect, or if the pod was repaired.
	acted bool
}

// try makes one attempt. An error that is not of kind Runtime is permanent.
func (a *restoring) try(ctx context.Context) (err error) {
	n, id := a.node, a.target.Plan.ID
	if a.target.Was.Observed != nil && a.made.Images == nil {
		if a.made.Images, err = reconcile.ImagesOf(ctx, n, a.made.Pod, a.target.Was.Observed); err != nil {
			return err
		}
	}
	lock, err := n.Locks().LockPod(ctx, id, store.PurposeRun)
	defer lock.Release()
	if err != nil {
		return err
	}
	now, err := store.ReadCheckpoint(n.Layout(), id.UID)
	if err != nil {
		return permanent(err)
	}
	if now == nil {
		return permanent(errors.New("the pod was deleted"))
	}
	changed := now.Hash() != a.made.Hash()
	if changed && now.Hash() != a.target.Plan.Checkpoint.Hash() {
		return permanent(errors.New("another command has changed the pod"))
	}
	a.acted = a.acted || changed
	o := ApplyOptions{AllowKubelet: a.options.AllowKubelet, KeepOnFailure: true, Force: changed, KeepUID: true, Origin: a.origins[id.String()]}
	restored, err := applyLocked(ctx, n, a.made.Objects(), store.PodLocks{id.String(): lock}, o)
	if err == nil {
		err = restored[0].Err
	}
	a.acted = a.acted || err == nil && restored[0].Outcome != OutcomeUnchanged
	return err
}

func permanent(err error) error { return &problem.Error{Kind: problem.Failed, Err: err} }

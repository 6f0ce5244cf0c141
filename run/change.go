package run

import (
	"context"
	"maps"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
)

// Redefine derives the new definition of a pod from its checkpoint. It returns the definition and the
// objects to which the definition refers, or nil if nothing changes. The pod must keep its UID. Change
// may call it several times.
type Redefine func(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error)

// changeAttempts is the maximum number of times that Change tries to change a pod while other commands
// are changing it.
const changeAttempts = 5

// Change applies changed definitions of pods on this host, as Apply does. It reads the definitions under
// the pods' locks. If another command changes a pod before the new definition is in effect, Change reads the
// new definition and changes it, so that the changes of both commands take effect. If redefine returns an
// error for a pod, no pod is changed. The results are in the order of pods; the errors are those of Restart.
//
// Change replaces the replicas of a workload one after the other (rollOut), unless it only changes definitions.
//
// If Change must replace a pod, the pod keeps its UID. It also keeps its checkpoint until the new definition
// is durable, because the checkpoint is the only copy of a definition.
func Change(ctx context.Context, n *node.Node, pods []Known, redefine Redefine, o ApplyOptions) ([]Result, error) {
	o.FromCheckpoint, o.Redefined = true, true
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if o.DefineOnly {
		byName, err := changeAll(ctx, n, pods, redefine, o)
		return inOrderOf(pods, byName), err
	}
	all, failed := map[string]Result{}, map[string]identity.Pod{}
	rounds := rollOut(pods)
	for i, round := range rounds {
		var list []Known
		for _, b := range round {
			if by, is := failed[b.workload]; is {
				for _, k := range b.pods {
					all[k.ID.String()] = notRolledOut(k.ID, by)
				}
				continue
			}
			list = append(list, b.pods...)
		}
		option := o
		if i < len(rounds)-1 && (o.Wait == "" || o.Wait == lifecycle.GoalStarted) {
			option.Wait = lifecycle.GoalReady
		}
		byName, err := changeAll(ctx, n, list, redefine, option)
		if err != nil && i == 0 {
			return nil, err
		}
		for _, b := range round {
			for _, k := range b.pods {
				r, changed := byName[k.ID.String()]
				if err != nil {
					r, changed = Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}, true
				}
				if changed {
					all[k.ID.String()] = r
				}
				if r.Err != nil && b.workload != "" {
					failed[b.workload] = k.ID
				}
			}
		}
	}
	return inOrderOf(pods, all), nil
}

// inOrderOf returns the results in the order of pods.
func inOrderOf(pods []Known, byName map[string]Result) []Result {
	if byName == nil {
		return nil
	}
	results := make([]Result, len(pods))
	for i, k := range pods {
		results[i] = byName[k.ID.String()]
	}
	return results
}

// changeAll changes the pods at the same time. The keys of the results have the form namespace/name.
func changeAll(ctx context.Context, n *node.Node, pods []Known, redefine Redefine, o ApplyOptions) (map[string]Result, error) {
	byName, err := changeOnce(ctx, n, pods, redefine, o)
	if err != nil {
		return nil, err
	}
	for range changeAttempts - 1 {
		var again []Known
		for _, k := range pods {
			if reconcile.IsSuperseded(byName[k.ID.String()].Err) {
				again = append(again, k)
			}
		}
		if len(again) == 0 {
			break
		}
		retried, err := changeOnce(ctx, n, again, redefine, o)
		for _, k := range again {
			r := retried[k.ID.String()]
			if err != nil {
				r = Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}
			}
			// Another command read the definition that this command had stored, and applied it together with its
			// own change: report the pod as updated.
			if r.Outcome == OutcomeUnchanged {
				r.Outcome = OutcomeUpdated
			}
			byName[k.ID.String()] = r
		}
	}
	return byName, nil
}

// changeOnce makes one attempt to change the pods. The keys of the results have the form
// namespace/name. Each pod has its own copies of the objects to which it refers. If the copies of two pods
// differ, changeOnce changes one pod after the other.
func changeOnce(ctx context.Context, n *node.Node, pods []Known, redefine Redefine, o ApplyOptions) (map[string]Result, error) {
	here, results, locks, err := lockExisting(ctx, n, pods)
	defer locks.Release()
	if err != nil {
		return nil, err
	}
	all := &manifest.Objects{}
	var later []Known
	for _, k := range here {
		c, err := checkpoint(n, k.ID)
		if err != nil {
			return nil, err
		}
		changed, err := redefine(k.ID, c)
		if err != nil {
			return nil, err
		}
		if changed == nil {
			results = append(results, Result{ID: k.ID, Outcome: OutcomeUnchanged})
			continue
		}
		if !all.Agrees(changed) {
			locks[k.ID.String()].Release()
			later = append(later, k)
			continue
		}
		all.Add(changed)
	}
	if len(all.Pods) > 0 {
		applied, err := applyLocked(ctx, n, all, locks, o)
		if err != nil {
			return nil, err
		}
		results = append(results, applied...)
	}
	byName := map[string]Result{}
	for _, r := range results {
		byName[r.ID.String()] = r
	}
	if len(later) == 0 {
		return byName, nil
	}
	changed, err := changeOnce(ctx, n, later, redefine, o)
	for _, k := range later {
		if err != nil {
			changed = map[string]Result{k.ID.String(): {ID: k.ID, Outcome: OutcomeFailed, Err: err}}
		}
		maps.Copy(byName, changed)
	}
	return byName, nil
}

package run

import (
	"context"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
)

// Redefine derives the new definition of a pod from its checkpoint. It returns the definition and the
// objects to which the definition refers, or nil if nothing changes. The pod must keep its UID. ChangePods
// may call it several times.
type Redefine func(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error)

// changeAttempts is the maximum number of times that ChangePods tries to change a pod while other commands
// are changing it.
const changeAttempts = 5

// changing is one ChangePods in progress.
type changing struct {
	node     *node.Node
	redefine Redefine
	ApplyOptions
	results map[string]Result // by namespace/name
}

// ChangePods applies changed definitions of pods on this host, as ApplyPods does. It reads the definitions under
// the pods' locks. If another command changes a pod before the new definition is in effect, ChangePods reads the
// new definition and changes it, so that the changes of both commands take effect. If redefine returns an
// error for a pod, no pod is changed. The results are in the order of pods; the errors are those of StartPods.
//
// ChangePods replaces the replicas of a workload one after the other (rollOut), unless it only changes definitions.
//
// If ChangePods must replace a pod, the pod keeps its UID. It also keeps its checkpoint until the new definition
// is durable, because the checkpoint is the only copy of a definition.
func ChangePods(ctx context.Context, n *node.Node, pods []Known, redefine Redefine, o ApplyOptions) ([]Result, error) {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	o.FromCheckpoint = true
	o.Redefined = true
	c := &changing{node: n, redefine: redefine, ApplyOptions: o, results: map[string]Result{}}
	rounds := [][]batch{{{pods: pods}}}
	if !o.DefineOnly {
		rounds = rollOut(pods)
	}
	failed := map[string]identity.Pod{} // a pod that has failed, by workload
	for i, round := range rounds {
		if c.Wait = o.Wait; i < len(rounds)-1 && (o.Wait == "" || o.Wait == lifecycle.GoalStarted) {
			c.Wait = lifecycle.GoalReady
		}
		round = slices.DeleteFunc(round, func(b batch) bool {
			by, is := failed[b.workload]
			if is {
				c.fail(b.pods, func(id identity.Pod) error { return notRolledOut(id, by) })
			}
			return is
		})
		var list []Known
		for _, b := range round {
			list = append(list, b.pods...)
		}
		if err := c.change(ctx, list); err != nil {
			if i == 0 {
				return nil, err
			}
			c.fail(list, func(identity.Pod) error { return err })
		}
		for _, b := range round {
			for _, k := range b.pods {
				if b.workload != "" && c.results[k.ID.String()].Err != nil {
					failed[b.workload] = k.ID
				}
			}
		}
	}
	results := make([]Result, len(pods))
	for i, k := range pods {
		results[i] = c.results[k.ID.String()]
	}
	return results, nil
}

// fail records that pods were not changed.
func (c *changing) fail(pods []Known, cause func(identity.Pod) error) {
	for _, k := range pods {
		c.results[k.ID.String()] = Result{ID: k.ID, Outcome: OutcomeFailed, Err: cause(k.ID)}
	}
}

// change changes pods concurrently. If there is an error, it has changed none.
func (c *changing) change(ctx context.Context, pods []Known) error {
	if err := c.once(ctx, pods); err != nil {
		return err
	}
	for range changeAttempts - 1 {
		again := slices.DeleteFunc(slices.Clone(pods), func(k Known) bool { return !reconcile.IsSuperseded(c.results[k.ID.String()].Err) })
		if len(again) == 0 {
			break
		}
		if err := c.once(ctx, again); err != nil {
			c.fail(again, func(identity.Pod) error { return err })
		}
		for _, k := range again {
			// Another command read the definition that this command had stored, and applied it together with its
			// own change: report the pod as updated.
			if r := c.results[k.ID.String()]; r.Outcome == OutcomeUnchanged {
				r.Outcome = OutcomeUpdated
				c.results[k.ID.String()] = r
			}
		}
	}
	return nil
}

// once makes one attempt to change pods. Each pod has its own copies of the objects to which it refers. If the
// copies of two pods differ, once changes one pod after the other.
func (c *changing) once(ctx context.Context, pods []Known) error {
	here, results, locks, err := lockExisting(ctx, c.node, pods)
	defer locks.Release()
	if err != nil {
		return err
	}
	all := &manifest.Objects{}
	var later []Known
	for _, k := range here {
		stored, err := checkpoint(c.node, k.ID)
		if err != nil {
			return err
		}
		changed, err := c.redefine(k.ID, stored)
		switch {
		case err != nil:
			return err
		case changed == nil:
			results = append(results, Result{ID: k.ID, Outcome: OutcomeUnchanged})
		case all.Agrees(changed):
			all.Add(changed)
		default:
			locks[k.ID.String()].Release()
			later = append(later, k)
		}
	}
	if len(all.Pods) > 0 {
		applied, err := applyLocked(ctx, c.node, all, locks, c.ApplyOptions)
		if err != nil {
			return err
		}
		results = append(results, applied...)
	}
	for _, r := range results {
		c.results[r.ID.String()] = r
	}
	if len(later) > 0 {
		if err := c.once(ctx, later); err != nil {
			c.fail(later, func(identity.Pod) error { return err })
		}
	}
	return nil
}

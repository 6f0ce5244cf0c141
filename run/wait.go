package run

import (
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// WaitOptions are the options of Wait.
type WaitOptions struct {
	Timeout time.Duration // 0 for no limit
	For     lifecycle.Goal
}

// Wait supervises a pod until the pod reaches the goal: it restarts containers and runs probes. The
// result contains the pod's status at that time. Its error is of kind Deadline if o.Timeout has
// expired, and Failed if the pod terminated, was stopped or was deleted before it reached the goal.
func Wait(ctx context.Context, n *node.Node, k Known, o WaitOptions) Result {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if o.For == lifecycle.GoalDeleted {
		return Result{ID: k.ID, Outcome: OutcomeMet, Err: waitDeleted(ctx, n, k)}
	}
	result := onPod(ctx, n, k, OutcomeMet, n.Locks(), store.PurposeRun, func(s *reconcile.Worker) error {
		return s.Attend(ctx, o.For)
	})
	if result.Err == nil && !o.For.ReachedBy(result.Status) {
		result.Err = &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(),
			Err: fmt.Errorf("has ended (%s) before the condition %s was met", result.Status.Phase, o.For)}
	}
	return result
}

// WaitAll waits for several pods concurrently; the entries are in the order of pods.
func WaitAll(ctx context.Context, n *node.Node, pods []Known, o WaitOptions) Report {
	report := ReportOf(node.InParallel(pods, func(k Known) Result { return Wait(ctx, n, k, o) }))
	for i, k := range pods {
		report.Entries[i].Pod = k.Pod
	}
	if o.For == lifecycle.GoalCompleted {
		report.ended()
	}
	return report
}

// deletedPoll is the interval at which Wait checks whether a pod is deleted.
const deletedPoll = 50 * time.Millisecond

// waitDeleted waits until nothing of the pod remains on this host.
func waitDeleted(ctx context.Context, n *node.Node, k Known) error {
	for {
		left, err := lookup.Find(ctx, n, lookup.Selector{Namespace: k.ID.Namespace, Names: []string{k.ID.Name}, UID: k.ID.UID})
		if err != nil || len(left) == 0 {
			return err
		}
		if err := wait.Sleep(ctx, deletedPoll); err != nil {
			return reconcile.DeadlineError(k.ID, err, "the pod still exists")
		}
	}
}

package run

import (
	"context"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/ownruntime"
)

// RemoveRuntimeInput is the input of RemoveRuntime.
type RemoveRuntimeInput struct {
	Runtime *ownruntime.Runtime
	Force   bool // kill and remove pods first
	// Working is called with the pods before the first of them is removed; it may be nil.
	Working func([]identity.Pod)
	// Open starts the runtime if necessary, and returns a node for the removal of pods. The caller calls the function
	// to close the node.
	Open func(context.Context) (*node.Node, func(), error)
}

// RemoveRuntime removes the embedded runtime and everything that it created on this host. The report has one entry for
// each pod that Force removes, and one for the runtime if it was removed.
func RemoveRuntime(ctx context.Context, in RemoveRuntimeInput) (report Report, err error) {
	if err := in.Runtime.Removable(ctx, in.Force); err != nil {
		return report, err
	}
	if in.Force {
		results, err := in.deletePods(ctx)
		report.add(false, results...)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		report.Entries = slices.DeleteFunc(report.Entries, func(e Entry) bool { return e.Err != nil }) // Down removes these pods
		// If the runtime cannot start, podrun removes it and the pods anyway.
		if err != nil {
			in.Runtime.Warn(problem.List{problem.WarningOf(err)})
		}
	}
	rest, err := in.Runtime.Down(ctx, in.Force)
	report.add(false, rest...)
	if err == nil {
		report.Entries = append(report.Entries, Entry{Kind: "Runtime", Result: Result{Outcome: OutcomeRemoved}})
	}
	return report, err
}

// OutcomeRemoved is the outcome of RemoveRuntime for the runtime.
const OutcomeRemoved Outcome = "removed"

// deletePods kills and removes all pods of the root directory.
func (in RemoveRuntimeInput) deletePods(ctx context.Context) ([]Result, error) {
	if used, err := in.Runtime.HasPods(ctx); err != nil || !used {
		return nil, err
	}
	n, closeNode, err := in.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeNode()
	pods, err := lookup.Find(ctx, n, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	if in.Working != nil {
		in.Working(idsOf(pods))
	}
	var grace time.Duration
	results, err := DeletePods(ctx, n, pods, DeleteOptions{Grace: &grace})
	if err == nil {
		err = ReportOf(results).Err()
	}
	return results, err
}

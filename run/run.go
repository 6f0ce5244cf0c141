package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// Run runs new pods to completion and removes them. When ctx ends, it stops the pods within their
// grace periods, and then removes them as well. If Run returns an error, it has started no pod; the error
// is of kind Refused, Deadline or Runtime, or the cause that ended ctx. Errors of individual pods
// are in their entries.
func Run(ctx context.Context, n *node.Node, objects *manifest.Objects, o RunOptions) (Report, error) {
	objects = withRandomUIDs(objects)
	bounded, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	locks, err := n.LockPods(bounded, objects)
	defer locks.Release()
	if err != nil {
		return Report{}, err
	}
	var kept problem.List
	if !o.Replace {
		kept, err = refuseExisting(bounded, n, objects, replacedByRun, "use --replace to remove it first, or metadata.generateName for a unique name")
		if err != nil {
			return Report{}, reconcile.ReadHostError(bounded, err)
		}
	}
	o.Wait = lifecycle.GoalCompleted
	o.Origin = store.Origin{Command: store.OriginRun, RemovedAtEnd: !o.Keep}
	targets, err := n.Admit(bounded, objects, locks, o.ApplyOptions.Admit())
	if err != nil {
		return Report{}, reconcile.ReadHostError(bounded, err)
	}
	defer n.Settle()
	n.SendWarnings(kept)
	workers := reconcile.NewWorkers(n, targets, objects, locks)
	bounded, over := untilEnds(bounded, targets, o.ExitFrom)
	entries := make([]Entry, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			defer workers[i].Release()
			one := o
			one.Over = func() { over(t) }
			entries[i] = Entry{Kind: kindPod, Result: workers[i].Run(bounded, t, one), Pod: objects.Pods[i].Object}
		})
	}
	wg.Wait()
	return Report{Entries: entries}, nil
}

// untilEnds returns a context that ends with the cause reconcile.ErrRunOver when over has been
// called for each pod that has the container. If no pod has the container, the context never ends
// with this cause.
func untilEnds(ctx context.Context, targets []prepare.Target, container string) (bounded context.Context, over func(prepare.Target)) {
	ctx, end := context.WithCancelCause(ctx)
	has := func(t prepare.Target) bool {
		return t.Plan != nil && lifecycle.FindContainer(t.Plan.Pod, container).Container != nil
	}
	var left atomic.Int32
	for _, t := range targets {
		if has(t) {
			left.Add(1)
		}
	}
	return ctx, func(t prepare.Target) {
		if has(t) && left.Add(-1) == 0 {
			end(reconcile.ErrRunOver)
		}
	}
}

// withRandomUIDs gives each pod a unique UID, so that two runs of one file share neither logs nor
// directories. It keeps a UID that the file specifies.
func withRandomUIDs(objects *manifest.Objects) *manifest.Objects {
	out := *objects
	out.Pods = nil
	for _, p := range objects.Pods {
		if p.Object.UID == "" {
			p.Object = p.Object.DeepCopy()
			p.Object.UID = uuid.NewUUID()
		}
		out.Pods = append(out.Pods, p)
	}
	return &out
}

// replacedByRun reports whether run replaces a pod of the same name without --replace. It replaces
// only a pod that run created and that has ended, because the user has not permitted podrun to
// remove any other pod.
func replacedByRun(phase corev1.PodPhase, owner *store.OwnerRecord) bool {
	ended := phase == corev1.PodSucceeded || phase == corev1.PodFailed
	return ended && owner != nil && owner.Origin != nil && owner.Origin.Command == store.OriginRun
}

// neverReplaced is the rule for ApplyOptions.New: no pod is replaced.
func neverReplaced(corev1.PodPhase, *store.OwnerRecord) bool { return false }

// CheckNew returns an error of kind Refused, with the given hint, for each pod that has the name of an
// existing pod.
func CheckNew(ctx context.Context, n *node.Node, objects *manifest.Objects, hint string) error {
	_, err := refuseExisting(ctx, n, objects, neverReplaced, hint)
	return err
}

// refuseExisting refuses pods that have the name of an existing pod. If podrun may replace the existing pod, it
// returns a warning instead.
func refuseExisting(ctx context.Context, n *node.Node, objects *manifest.Objects, replaced func(corev1.PodPhase, *store.OwnerRecord) bool, hint string) (replacing problem.List, err error) {
	var errs []error
	for _, p := range objects.Pods {
		views, err := lookup.Pods(ctx, n, lookup.Selector{Namespace: p.Object.Namespace, Names: []string{p.Object.Name}})
		if err != nil {
			return nil, err
		}
		for _, v := range views {
			owner, err := store.ReadOwner(n.Layout(), v.ID)
			if err != nil {
				return nil, err
			}
			phase := v.Object.Status.Phase
			if replaced(phase, owner) {
				replacing = append(replacing, problem.Problem{Object: "pod " + v.ID.String(), Warning: true,
					Message: fmt.Sprintf("this run replaces the pod of an earlier run, which was kept (%s), and removes its logs", phase)})
				continue
			}
			errs = append(errs, &problem.Error{Kind: problem.Refused, Object: "pod " + v.ID.String(),
				Err:  fmt.Errorf("already exists (%s)", phase),
				Hint: hint})
		}
	}
	return replacing, errors.Join(errs...)
}

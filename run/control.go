package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podrun/podrun/run/reconcile"

	"github.com/podrun/podrun/run/node"

	"github.com/podrun/podrun/run/observe"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// WaitOptions are the options of Wait.
type WaitOptions struct {
	Timeout time.Duration // 0 for no limit
	For     lifecycle.Goal
}

// Wait keeps a pod as its manifest says until the goal holds: it restarts
// containers and runs probes, for nobody else does. The result's status tells
// how the pod is then.
func (e *Engine) Wait(ctx context.Context, k Known, o WaitOptions) Result {
	ctx, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	if o.For == lifecycle.GoalDeleted {
		return Result{ID: k.ID, Outcome: OutcomeMet, Err: e.waitDeleted(ctx, k)}
	}
	result := e.onPod(ctx, k, OutcomeMet, store.PurposeRun, func(s *reconcile.Worker) error {
		return s.Attend(ctx, o.For)
	})
	if result.Err == nil && !o.For.ReachedBy(result.Status) {
		result.Err = &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(),
			Err: fmt.Errorf("has ended (%s) without %s", result.Status.Phase, o.For)}
	}
	return result
}

// onPod does something with a pod that is here, under its lock, and tells how
// the pod is then.
func (e *Engine) onPod(ctx context.Context, k Known, outcome Outcome, p store.Purpose, do func(*reconcile.Worker) error) Result {
	result := Result{ID: k.ID, Outcome: outcome}
	lock, err := e.Locks().LockPod(ctx, k.ID, p)
	defer lock.Release()
	if err != nil {
		result.Err = err
		return result
	}
	s, err := reconcile.Resume(ctx, &e.Node, k.ID, lock)
	if err != nil {
		result.Err = reconcile.OrEnded(ctx, err)
		return result
	}
	result.Err = errors.Join(do(s), s.Close())
	result.Status = s.Status()
	return result
}

// WaitAll waits for several pods at once.
func (e *Engine) WaitAll(ctx context.Context, pods []Known, o WaitOptions) []Result {
	return node.InParallel(pods, func(k Known) Result { return e.Wait(ctx, k, o) })
}

// deletedPoll is how often Wait looks whether a pod is gone.
const deletedPoll = 50 * time.Millisecond

// waitDeleted waits until nothing of the pod is here.
func (e *Engine) waitDeleted(ctx context.Context, k Known) error {
	for {
		left, err := e.Find(ctx, Selector{Namespace: k.ID.Namespace, Names: []string{k.ID.Name}, UID: k.ID.UID})
		if err != nil || len(left) == 0 {
			return err
		}
		if err := observe.Sleep(ctx, deletedPoll); err != nil {
			return reconcile.DeadlineError(k.ID, err, "it is still here")
		}
	}
}

// withTimeout bounds a command; 0 does not.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, problem.TimeoutError{After: limit})
}

// Restart runs pods again from their checkpoints: what is left of them goes
// first, with its grace period, and they start anew.
func (e *Engine) Restart(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	objects, err := e.checkpointed(pods)
	if err != nil {
		return nil, err
	}
	o.Force = true
	return e.Apply(ctx, objects, o)
}

// checkpointed are the pods as objects of a manifest.
func (e *Engine) checkpointed(pods []Known) (*manifest.Objects, error) {
	all := &manifest.Objects{}
	for _, k := range pods {
		c, err := store.ReadCheckpoint(e.Layout(), k.ID.UID)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(), Err: errors.New("its checkpoint is gone"),
				Hint: "apply its manifest again"}
		}
		all.Add(c.Objects())
	}
	return all, nil
}

// Stop stops pods and leaves what they have: their directories, logs and the
// records of their containers. Start, or applying them again, goes on with
// them; nothing else does.
func (e *Engine) Stop(ctx context.Context, pods []Known, o DeleteOptions) []Result {
	ctx, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	return node.InParallel(pods, func(k Known) Result { return e.stopOne(ctx, k, o) })
}

func (e *Engine) stopOne(ctx context.Context, k Known, o DeleteOptions) Result {
	return e.onPod(ctx, k, OutcomeStopped, store.PurposeStop, func(s *reconcile.Worker) error { return s.Stop(ctx, o.Grace) })
}

// Start goes on with pods that were stopped.
func (e *Engine) Start(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	objects, err := e.checkpointed(pods)
	if err != nil {
		return nil, err
	}
	return e.Apply(ctx, objects, o)
}

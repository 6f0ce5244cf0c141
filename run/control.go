package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
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
	result := e.onPod(ctx, k, OutcomeMet, store.PurposeRun, func(s *syncer) error {
		s.adopts, s.attends = true, true
		if err := s.wasStopped(); err != nil {
			return err
		}
		_, err := s.until(ctx, o.For)
		return err
	})
	if result.Err == nil && !o.For.ReachedBy(result.Status) {
		result.Err = &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(),
			Err: fmt.Errorf("has ended (%s) without %s", result.Status.Phase, o.For)}
	}
	return result
}

// onPod does something with a pod that is here, under its lock, and tells how
// the pod is then.
func (e *Engine) onPod(ctx context.Context, k Known, outcome Outcome, p store.Purpose, do func(*syncer) error) Result {
	result := Result{ID: k.ID, Outcome: outcome}
	lock, err := e.locks().LockPod(ctx, k.ID, p)
	defer lock.Release()
	if err != nil {
		result.Err = err
		return result
	}
	s, err := e.resume(ctx, k, lock)
	if err != nil {
		result.Err = orEnded(ctx, err)
		return result
	}
	result.Err = errors.Join(do(s), s.journal.Close())
	result.Status = s.status()
	return result
}

// WaitAll waits for several pods at once.
func (e *Engine) WaitAll(ctx context.Context, pods []Known, o WaitOptions) []Result {
	return sideBySide(pods, func(k Known) Result { return e.Wait(ctx, k, o) })
}

// resume makes a syncer that goes on with a pod that is here.
func (e *Engine) resume(ctx context.Context, k Known, lock *store.PodLock) (*syncer, error) {
	c, err := store.ReadCheckpoint(e.layout(), k.ID.UID)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(), Err: errors.New("its checkpoint is gone"),
			Hint: "'podrun delete' removes what is left of it"}
	}
	facts, err := discover.Read(ctx, e.Client, e.Settings, discover.Options{})
	if err != nil {
		return nil, err
	}
	plan, problems := replan(e, c, facts)
	if err := problem.Refuse(problem.Refused, problems); err != nil {
		return nil, err
	}
	journals := map[string]*store.Journal{}
	s := e.newSyncer(plan, e.newPuller(journals), lock)
	journals[plan.ID.UID] = s.journal
	if err := s.journal.Open(plan.Layout); err != nil {
		return nil, err
	}
	s.reserved = true
	s.obs, err = e.observe(ctx, plan.ID.UID)
	if err != nil {
		return nil, runtimeError(k.ID, err)
	}
	return s, nil
}

// replan plans a pod again from its checkpoint.
func replan(e *Engine, c *manifest.Checkpoint, facts host.Facts) (*prepare.Plan, problem.List) {
	objects := c.Objects()
	handler, found := prepare.RuntimeHandler(c.Pod, objects)
	allocatable, bad := admission.Allocatable(facts, e.Settings)
	plan, problems := prepare.NewPlan(prepare.Input{
		Pod: c.Pod, UID: string(c.Pod.UID), Objects: objects, Facts: facts, Settings: e.Settings,
		Handler: handler, Invocation: e.Invocation, Allocatable: allocatable,
	})
	plan.WithDevices(plan.DevicesHere())
	return plan, slices.Concat(found, bad, problems)
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
		if err := sleep(ctx, deletedPoll); err != nil {
			return deadlineError(k.ID, err, "it is still here")
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
		c, err := store.ReadCheckpoint(e.layout(), k.ID.UID)
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
	return sideBySide(pods, func(k Known) Result { return e.stopOne(ctx, k, o) })
}

func (e *Engine) stopOne(ctx context.Context, k Known, o DeleteOptions) Result {
	return e.onPod(ctx, k, OutcomeStopped, store.PurposeStop, func(s *syncer) error {
		if err := s.acquire(store.PurposeStop); err != nil {
			return err
		}
		grace := s.gracePeriod()
		if o.Grace != nil {
			grace = *o.Grace
		}
		// Before it is: whoever waits for the pod sees its containers end.
		if err := s.markStopped("was stopped by "+store.ShownHolder(s.who()), "'podrun start "+k.ID.Name+" -n "+k.ID.Namespace+"' goes on with it"); err != nil {
			return runtimeError(k.ID, err)
		}
		if err := s.stopOwned(ctx, grace); err != nil {
			return s.orInterrupted(ctx, s.ofRuntime(err))
		}
		return nil
	})
}

// Start goes on with pods that were stopped.
func (e *Engine) Start(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	objects, err := e.checkpointed(pods)
	if err != nil {
		return nil, err
	}
	return e.Apply(ctx, objects, o)
}

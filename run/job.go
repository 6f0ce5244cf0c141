package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
)

// RunOptions are the options of Run.
type RunOptions struct {
	ApplyOptions
	Replace bool // a live pod of the same name goes first, instead of being refused
	Keep    bool // leave the pods when they have ended
	// Started is called for each container that starts, with a channel that is
	// closed when it has ended. What it returns is called before the pod is
	// removed, and waits until the container's log was read.
	Started func(Log, <-chan struct{}) (drained func())
}

// RunResult is how a pod that was run to its end has ended.
type RunResult struct {
	Result
	Containers []lifecycle.Ended
}

// Run runs fresh pods to their ends and removes them. When ctx ends, the pods
// are stopped within their grace periods, and removed too.
func (e *Engine) Run(ctx context.Context, objects *manifest.Objects, o RunOptions) ([]RunResult, error) {
	objects = withRandomUIDs(objects)
	bounded, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	locks, err := e.lockPods(bounded, objects)
	defer locks.Release()
	if err != nil {
		return nil, err
	}
	if !o.Replace {
		if err := e.refuseLive(bounded, objects); err != nil {
			return nil, err
		}
	}
	o.Wait = lifecycle.GoalCompleted
	targets, err := e.admit(bounded, objects, locks, o.ApplyOptions)
	if err != nil {
		return nil, err
	}
	syncers := e.syncers(targets, objects, locks)
	results := make([]RunResult, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		syncers[i].adopts = true
		wg.Go(func() {
			defer syncers[i].lock.Release()
			results[i] = syncers[i].runOne(bounded, t, o)
		})
	}
	wg.Wait()
	return results, nil
}

// withRandomUIDs gives each pod a UID of its own, so that two runs of one file
// share neither logs nor directories. One that the file names is kept.
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

// refuseLive refuses pods whose names live pods have.
func (e *Engine) refuseLive(ctx context.Context, objects *manifest.Objects) error {
	var errs []error
	for _, p := range objects.Pods {
		views, err := e.Pods(ctx, Selector{Namespace: p.Object.Namespace, Names: []string{p.Object.Name}})
		if err != nil {
			return err
		}
		for _, v := range views {
			if phase := v.Object.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
				errs = append(errs, &problem.Error{Kind: problem.Refused, Object: "pod " + v.ID.String(),
					Err:  fmt.Errorf("is here already (%s)", phase),
					Hint: "--replace stops it first, metadata.generateName makes up a name for each run"})
			}
		}
	}
	return errors.Join(errs...)
}

// runOne runs one pod to its end and removes it.
func (s *syncer) runOne(ctx context.Context, t prepare.Target, o RunOptions) RunResult {
	s.started = o.Started
	result := RunResult{Result: s.applyOne(ctx, t, o.ApplyOptions)}
	result.Containers = lifecycle.EndedContainers(s.pod(), result.Status)
	if o.Keep {
		s.closeExits()
		s.drain()
		return result
	}
	err := s.runOver(ctx, &result)
	s.closeExits() // where the pod was left to another command
	s.drain()
	if err != nil {
		result.Err = errors.Join(result.Err, leftBehind(s.plan.ID, err))
	}
	return result
}

// runOver stops what still runs, on a context of its own, waits for the logs
// and removes the pod.
func (s *syncer) runOver(ctx context.Context, result *RunResult) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout+s.gracePeriod())
	defer cancel()
	if s.lock.Held == nil {
		if _, err := s.lock.Take(ctx); err != nil {
			return err
		}
	}
	if left, err := s.leftToOther(ctx); left || err != nil {
		return err
	}
	s.ending, s.dooms, s.lock.Removal = true, true, true
	err := s.removeOwned(ctx, removeOptions{stopped: func() {
		if len(result.Containers) == 0 {
			result.Status = s.status()
			result.Containers = lifecycle.EndedContainers(s.pod(), result.Status)
		}
		s.closeExits()
		s.drain()
	}})
	if err == nil {
		s.lock.Forget()
	}
	return err
}

// leftToOther tells whether another command owns the pod of a run that is over, or
// has removed it.
func (s *syncer) leftToOther(ctx context.Context) (bool, error) {
	if s.lock.Owned() || s.lock.Incarnation == "" {
		return false, nil
	}
	r, err := s.lock.Owner()
	if err != nil || r == nil || r.Incarnation != s.lock.Incarnation {
		return true, err
	}
	if !s.lock.Live(r) {
		return false, nil
	}
	s.warn(problem.List{{Object: "pod " + s.plan.ID.String(), Warning: true, Message: "podrun does not remove the pod: " + r.Shown() + " has taken it over"}})
	return true, nil
}

// tellStarted tells that a container has started, for its log to be read.
func (s *syncer) tellStarted(c lifecycle.Container, path string) {
	if s.started == nil {
		return
	}
	exited := make(chan struct{})
	s.exits[c.ID] = exited
	s.drains = append(s.drains, s.started(Log{Pod: s.plan.ID, Container: c.Name, ID: c.ID, Path: path, State: c.State}, exited))
}

// tellExits tells which containers have ended.
func (s *syncer) tellExits() {
	for _, c := range s.obs.Containers {
		if exited := s.exits[c.ID]; exited != nil && c.State != lifecycle.Running {
			close(exited)
			delete(s.exits, c.ID)
		}
	}
}

// closeExits tells that every container has ended.
func (s *syncer) closeExits() {
	for id, exited := range s.exits {
		close(exited)
		delete(s.exits, id)
	}
}

// drain waits until the logs were read.
func (s *syncer) drain() {
	for _, wait := range s.drains {
		wait()
	}
	s.drains = nil
}

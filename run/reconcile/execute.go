package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/start"
	"github.com/podrun/podrun/run/store"
)

// execute executes the actions in order, except delayed ones, and reports whether it executed any. An
// error ends the worker's loop. If a single container fails, execute records the failure and
// continues with the next action, as the kubelet does.
func (l *loop) execute(ctx context.Context, actions []lifecycle.Action) (did bool, err error) {
	now := l.retries.begin()
	if l.retries.held(podStep, now) {
		return false, nil
	}
	l.start.BeginPass()
	// starts of containers that podrun can execute in parallel
	var parallel []lifecycle.Action
	flush := func() error {
		batch := parallel
		parallel = nil
		return l.startParallel(ctx, batch)
	}
	// Drop removes a container that was created before its turn if its turn does not come.
	defer l.start.Ahead.Drop(ctx)
	last := len(actions) // index of the first delayed action
	for i := 0; i < len(actions); i++ {
		a := actions[i]
		if cause := context.Cause(ctx); cause != nil {
			return did, cause
		}
		turn := start.Now
		switch {
		case l.retries.delay(a, now):
			if turn = start.Later; l.startsInit(a) {
				turn = start.LaterWithRest
			}
		case a.Verb == lifecycle.CreateContainer:
			if !l.start.Ahead.Can("", a.Container) {
				turn = start.Later
			}
		case a.Verb == lifecycle.StartContainer:
			if len(parallel) > 0 && l.start.Images.Waiter.Waits(a.Container) {
				// Before podrun waits for a pull, it starts the containers whose images are
				// present.
				if err := flush(); err != nil {
					return did, err
				}
			}
			if turn, err = l.start.Images.Waiter.Turn(ctx, a, i >= last || i == len(actions)-1); err != nil {
				return did, err
			}
		}
		switch turn {
		case start.LaterWithRest:
			return did, flush()
		case start.Later:
			continue
		case start.AfterOthers:
			actions = append(actions, a)
			continue
		}
		did = true
		if l.start.StartsInParallel(a) {
			parallel = append(parallel, a)
			continue
		}
		if err := flush(); err != nil {
			return did, err
		}
		failed, err := l.executeAndRecord(ctx, a, l.nextAhead(actions[min(i, last):last], now))
		if err != nil {
			// ErrChanged means that another process has executed the action, or that another action is
			// required.
			return did, err
		}
		if failed && l.startsInit(a) {
			return did, nil
		}
	}
	if err := flush(); err != nil {
		return did, err
	}
	l.retries.forget(podStep)
	return did, nil
}

// nextAhead returns the second action if podrun creates the container of that action while the
// container of the first action starts. Otherwise it returns nil. podrun executes both actions without
// a wait in between.
func (l *loop) nextAhead(actions []lifecycle.Action, now time.Time) *lifecycle.Action {
	if len(actions) < 2 || actions[0].Verb != lifecycle.StartContainer || actions[1].Verb != lifecycle.StartContainer {
		return nil
	}
	next := &actions[1]
	if l.startsInit(actions[0]) || !l.pod.Plan.CreatesAhead(actions[0].Container, next.Container) || l.retries.delay(*next, now) || !l.start.Ahead.Can(actions[0].Container, next.Container) {
		return nil
	}
	return next
}

// startsInit reports whether an action starts an init container, which must complete before later ones
// start.
func (l *loop) startsInit(a lifecycle.Action) bool {
	return a.Verb == lifecycle.StartContainer && lifecycle.FindContainer(l.pod.Spec(), a.Container).Init
}

// executeAndRecord executes an action. If next is not nil, it creates the container of next at the
// same time. It reports whether a container failed; podrun then delays the next attempt.
func (l *loop) executeAndRecord(ctx context.Context, a lifecycle.Action, next *lifecycle.Action) (failed bool, err error) {
	before := len(l.start.Failures)
	if err := l.executeOne(ctx, a, next); err != nil {
		return false, err
	}
	switch a.Verb {
	case lifecycle.ResizePod, lifecycle.CreateContainer, lifecycle.RemoveContainer:
	default:
		l.acted = true
	}
	failed = len(l.start.Failures) > before
	switch step := stepOf(a); {
	case failed:
		l.retries.after(step, time.Now())
	case a.Verb == lifecycle.StartContainer, a.Verb == lifecycle.ResizePod:
		l.retries.forget(step)
	}
	return failed, nil
}

// startParallel starts containers in parallel. The list may be empty.
func (l *loop) startParallel(ctx context.Context, actions []lifecycle.Action) error {
	if len(actions) == 0 {
		return nil
	}
	defer trace.Begin(ctx, "start containers in parallel", l.pod.Plan.ID.String())()
	failed, err := l.start.Containers(ctx, nil, actions...)
	if err != nil {
		return err
	}
	for _, a := range actions {
		if slices.Contains(failed, a.Container) {
			l.retries.after(a.Container, time.Now())
		} else {
			l.retries.forget(a.Container)
		}
	}
	return nil
}

// executeOne executes an action. If next is not nil, it creates the container of next at the same
// time.
//
// The way of StartContainer, for example, is:
//
//	start.Starter.Containers   the steps of start/steps.go, each with its undo
//	  createAll                start/container_config.go: container.Plan.Config with the image, the mounts and the environment
//	    container.Apply        creates the log directory, and resolves an earlier request in doubt
//	      cri.Client           CreateContainer
//	  startAll                 writes the hosts file; cri.Client.StartContainer
//	  runHook                  start/hooks.go: the postStart hook (package container/hook)
func (l *loop) executeOne(ctx context.Context, a lifecycle.Action, next *lifecycle.Action) error {
	defer trace.Begin(ctx, string(a.Verb), l.objectOf(a))()
	switch a.Verb {
	case lifecycle.KillPod:
		if err := l.pod.RecordRestarts(a.Restart, l.pod.RunningIDs()...); err != nil {
			return err
		}
		return l.pod.OfRuntime(l.stop.Pod(ctx, l.pod.GracePeriod()))
	case lifecycle.CreateSandbox:
		return l.start.Sandbox(ctx, a)
	case lifecycle.KillContainer:
		if err := l.pod.RecordRestarts(a.Restart, a.ID); err != nil {
			return err
		}
		return l.stop.Container(ctx, a.ID, l.graceOf(a), a.Message)
	case lifecycle.StartContainer:
		_, err := l.start.Containers(ctx, next, a)
		return err
	case lifecycle.CreateContainer:
		return l.start.Ahead.Create(ctx, a)
	case lifecycle.RemoveContainer:
		return l.start.Ahead.Remove(ctx, a)
	case lifecycle.RestartAll:
		return l.restartAll(ctx)
	case lifecycle.RunPostStart:
		return l.start.Hooks.PostStart(ctx, a.Container)
	case lifecycle.ResizePod:
		return l.start.Resizer.Resize(ctx)
	}
	return fmt.Errorf("unknown action %s", a.Verb)
}

// objectOf returns the name of the object on which an action acts.
func (l *loop) objectOf(a lifecycle.Action) string {
	if a.Container == "" {
		return l.pod.Plan.ID.String()
	}
	return l.pod.Plan.ID.String() + " " + a.Container
}

// graceOf returns the grace period of a KillContainer action. If the action has none, it returns the
// pod's grace period.
func (l *loop) graceOf(a lifecycle.Action) time.Duration {
	if a.Grace != nil {
		return time.Duration(*a.Grace) * time.Second
	}
	return l.pod.GracePeriod()
}

// restartAll stops every container, and records that the previous runs no longer count. As in the kubelet, the
// containers have no grace period and no preStop hooks (KEP-5532).
func (l *loop) restartAll(ctx context.Context) error {
	if err := l.stop.Containers(ctx, 0); err != nil {
		return l.pod.OfRuntime(err)
	}
	ended := map[string]bool{}
	for _, c := range l.pod.Observed.Containers {
		ended[c.ID] = true
	}
	if err := store.RestartedFile.Write(l.pod.Plan.Layout.Pod(l.pod.Plan.ID.UID).Restarted(), slices.Sorted(maps.Keys(ended))); err != nil {
		return fmt.Errorf("pod %s: record the restart of its containers: %w", l.pod.Plan.ID, err)
	}
	l.pod.Observed.Restarted = ended
	return nil
}

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// Worker brings one pod to a goal: it observes, calls lifecycle.Next, executes the
// actions, and repeats. It serves one operation on one incarnation of the pod, and is not
// safe for concurrent use. Its state is a copy of what the runtime reported.
//
// Its parts are layered, and each uses only those before it: state, owned (ownership),
// probes, stopper, remover, starter.
type Worker struct {
	starter
	objects  *manifest.Objects // for a command that applies: this pod and the objects that it refers to
	endsWith string            // the container whose end is the pod's; "" for none (RunOptions.ExitFrom)
	// Those of a worker that supervises its pod.
	watch         *observe.Watch
	reportedError string // the last one
}

func (w *state) pod() *corev1.Pod { return w.plan.Pod }

// until converges the pod until the goal holds, the pod has ended, or an error occurs. It
// returns whether the pod has ended. While another command owns the pod, it only
// observes.
func (w *Worker) until(ctx context.Context, goal lifecycle.Goal) (ended bool, err error) {
	if w.plan.Checkpoint.SecretsLost && !lifecycle.Next(w.pod(), w.world()).Ended {
		return false, store.LostSecrets(w.plan.ID)
	}
	w.goal = goal
	w.startProbing()
	defer func() {
		err = errors.Join(err, w.stopProbing())
		w.logs.exited(w.obs)
	}()
	for {
		w.progress().act()
		w.logs.exited(w.obs)
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		owns, err := w.own(ctx)
		if errors.Is(err, store.ErrChanged) {
			continue
		} else if err != nil {
			return false, err
		}
		if owns {
			w.restoreCheckpoint()
		}
		if owns && !w.outage.IsZero() {
			if err := w.awaitRuntime(ctx); err != nil {
				return false, w.waitError(ctx, err, w.missing(goal))
			}
			continue
		}
		d, did, err := w.step(ctx, owns)
		if errors.Is(err, store.ErrChanged) {
			continue
		}
		if w.supervision != nil && (err != nil || len(w.failures) > 0) {
			err, d.Ended = w.retryLater(ctx, err), false
		}
		switch {
		case err != nil:
			return false, err
		case len(w.failures) > 0:
			return false, errors.Join(w.failures...)
		case w.reached(goal) && (!owns || w.confirms(goal)):
			return false, nil
		case d.Ended:
			return true, nil
		case did:
			continue
		}
		if err := w.await(ctx, d, owns); err != nil {
			return false, w.waitError(ctx, err, w.missing(goal))
		}
	}
}

// step decides what to do about the pod, and does it if this command owns the
// pod; did reports whether it did anything.
func (w *Worker) step(ctx context.Context, owns bool) (d lifecycle.Decision, did bool, err error) {
	if owns {
		if err := w.finishStops(ctx); err != nil {
			return d, false, err
		}
		if err := w.resumeAfterShutdown(); err != nil {
			return d, false, err
		}
		if err := w.keepProbed(false); err != nil {
			return d, false, err
		}
	}
	world := w.world()
	world.Ephemeral, world.DebugOnly = w.ephemeral(), w.goal.Debugs() != ""
	d = lifecycle.Next(w.pod(), world)
	if owns {
		did, err = w.execute(ctx, d.Actions)
		d.Ended = d.Ended && (did || len(d.Actions) == 0)
	}
	if err == nil && owns && w.lock.Held != nil && w.lock.Owned() {
		err = w.keepStatus()
	}
	return d, did, err
}

// ephemeral names the ephemeral containers that this command starts: a supervisor
// those of the pod, others only those that they were asked for, so that one which
// cannot be started does not make them fail.
func (w *Worker) ephemeral() []string {
	pod := w.pod()
	switch {
	case w.goal.Debugs() != "":
		return []string{w.goal.Debugs()}
	case w.supervision == nil && w.objects == nil:
		return nil
	case w.supervision == nil:
		pod = w.objects.Pods[0].Object
	}
	var names []string
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// resumeAfterShutdown makes a pod run again that was stopped because the node shut down,
// if its restart policy does: no supervisor works on it while the node shuts down.
func (w *Worker) resumeAfterShutdown() error {
	stopped := w.obs.Kept
	if stopped.ShutDown.IsZero() || w.supervision == nil && w.objects == nil {
		return nil
	}
	w.obs.Kept = stopped.AfterShutdown()
	if lifecycle.Next(w.pod(), w.world()).Ended {
		w.obs.Kept = stopped // it ended then
		return nil
	}
	return w.keep(w.obs.Kept)
}

// reached reports whether a goal holds.
func (w *Worker) reached(goal lifecycle.Goal) bool {
	if name := goal.Debugs(); name != "" {
		have := w.obs.Newest(name)
		return have != nil && (have.State == lifecycle.Running || have.State == lifecycle.Exited)
	}
	switch goal {
	case lifecycle.GoalNever:
		return false
	case lifecycle.GoalCompleted:
		return w.endsWith != "" && lifecycle.ContainerEnded(w.pod(), w.obs, w.endsWith)
	case lifecycle.GoalStarted, lifecycle.GoalReady:
		done, _ := lifecycle.StartedGoal(w.pod(), w.obs, w.mine)
		if !done || goal == lifecycle.GoalStarted {
			return done
		}
	}
	return goal.ReachedBy(w.Status())
}

// confirms reports whether this command has itself observed the facts that a goal about
// readiness depends on: other processes may not have probed the pod.
func (w *Worker) confirms(goal lifecycle.Goal) bool {
	ready, is := goal.Readiness()
	return !is || w.confirmed(ready)
}

// missing explains why a goal does not hold.
func (w *Worker) missing(goal lifecycle.Goal) string {
	if name := goal.Debugs(); name != "" {
		return fmt.Sprintf("ephemeral container %s is not started", name)
	}
	switch goal {
	case lifecycle.GoalCompleted:
		return "the pod has not completed"
	case lifecycle.GoalNever:
		return "supervising the pod"
	case lifecycle.GoalStarted, lifecycle.GoalReady:
		done, waiting := lifecycle.StartedGoal(w.pod(), w.obs, w.mine)
		if !done || goal == lifecycle.GoalStarted {
			return waiting
		}
	}
	if w.reached(goal) {
		return "its readiness probes have not succeeded again"
	}
	return goal.Missing(w.Status())
}

// await waits, without the pod's lock, for the next thing that Next would act
// upon. A command that does not own the pod observes it after followPoll.
func (w *Worker) await(ctx context.Context, d lifecycle.Decision, owns bool) error {
	if owns && w.supervision != nil {
		return w.awaitNews(ctx, d)
	}
	relist := observe.RelistAfter
	if owns {
		w.probe()
		w.emitBackOff(d)
	} else {
		w.probing.Store(nil)
		w.prober.Set(nil)
		d.Until, relist = time.Time{}, followPoll
	}
	again := false
	err := w.unlocked(ctx, w.lost, func(ctx context.Context) error {
		err := observe.AwaitChange(ctx, w.Client, w.obs, d, w.wake, relist)
		again = errors.Is(err, observe.ErrRelist) || status.Code(err) == codes.NotFound // removed by the pod's owner
		if again {
			return nil
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrChanged):
		return nil
	case err != nil || !again:
		return err
	}
	return w.relist(ctx)
}

// awaitRuntime waits, without the pod's lock, for a runtime that does not answer. Nothing
// that was observed before is acted upon.
func (w *Worker) awaitRuntime(ctx context.Context) error {
	err := w.unlocked(ctx, w.lost, func(ctx context.Context) error {
		if w.supervision != nil {
			return w.supervision.Hub.AwaitRuntime(ctx)
		}
		return wait.Sleep(ctx, observe.OutagePoll)
	})
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	return w.relist(ctx)
}

// followPoll is how often a command observes a pod that another one owns.
const followPoll = 500 * time.Millisecond

// longestOutage is how long a runtime may be away while a pod is waited for: one
// that is restarted is back by then.
const longestOutage = time.Minute

// relist observes the pod again. While the runtime does not answer or the pod cannot be
// read, the known state remains: nothing that podrun records may follow from a failed
// observation.
func (w *owned) relist(ctx context.Context) error {
	seen, err := w.Observe(ctx, w.plan.ID.UID)
	if !observe.IsUnavailable(err) {
		w.outage = time.Time{}
		if err == nil {
			w.obs = seen
			if w.unrecorded != nil {
				w.obs.PendingRestarts = w.unrecorded
			}
		}
		return err
	}
	if w.outage.IsZero() {
		w.outage = time.Now()
	}
	if w.supervision != nil || time.Since(w.outage) < longestOutage {
		return nil
	}
	return err
}

// emitBackOff reports containers that are held back, once for each exit.
func (w *state) emitBackOff(d lifecycle.Decision) {
	for _, name := range d.BackOff {
		c := w.obs.Container(name)
		if c == nil || w.saidBackOff[c.ID] {
			continue
		}
		if w.saidBackOff == nil {
			w.saidBackOff = map[string]bool{}
		}
		w.saidBackOff[c.ID] = true
		w.emit(event.Warning, event.BackOffStart, name,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, w.plan.ID.Ref()))
	}
}

// emit reports an event about a container of the pod, or about the pod itself.
func (w *state) emit(kind, reason, container, message string) {
	path := ""
	if container != "" {
		path = lifecycle.FindContainer(w.pod(), container).EventPath
	}
	w.journal.Emit(event.Event{Type: kind, Reason: reason, FieldPath: path, Message: message})
}

// fail notes that one container cannot be started; the others are started.
func (w *state) fail(err error) { w.failures = append(w.failures, ofPod(w.plan.ID, err)) }

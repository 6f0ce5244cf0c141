package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/run/node"

	"github.com/podrun/podrun/run/observe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/probe"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// Worker brings one pod to a goal: it observes, asks Next, executes, and does
// so again. One Worker serves one command; what it knows is only a memory of
// what the runtime said.
type Worker struct {
	*node.Node
	plan    *prepare.Plan
	lock    *store.PodLock
	obs     *lifecycle.Observed
	journal *store.Journal
	undo    undo
	puller  *imagepull.Puller
	pulls   *imagepull.Pulls // of the plan's images; nil when none were begun
	// pulled are the containers that have had their image from pulls.
	pulled map[string]bool
	// mine are the containers that this sync started, by ID.
	mine map[string]bool
	// failures are what went wrong with single containers: the others go on.
	failures []error
	goal     lifecycle.Goal
	prober   *probe.Prober                    // nil while nobody probes
	probing  atomic.Pointer[store.Generation] // the generation under which it probes; nil while it does not
	reported sync.Map                         // the containers whose probes have come to a result, by ID
	wake     chan struct{}                    // ends a wait: a probe has found something out
	// started, exits and drains serve Run, which reads the containers' logs.
	started func(Log, <-chan struct{}) (drained func())
	exits   map[string]chan struct{}
	drains  []func()
	// acted says that something was done to the pod.
	acted bool
	// ending says that this command stops or removes the pod; dooms, that it
	// removes it.
	ending, dooms bool
	// adopts says that the command goes on with the pod's new definition when
	// another one updates it; attends, that it does not ask for the pod to be
	// here, but looks after it while it is.
	adopts, attends bool
	objects         *manifest.Objects // of a command that applies: this pod and what it refers to
	applied         prepare.Target    // the pod as it was admitted last
	// reserved says that the pod has a directory.
	reserved bool
	// startNoted says that the owner record says that a container was started.
	startNoted bool
	// saidBackOff are the containers whose back-off was reported, by ID.
	saidBackOff map[string]bool
	// outage is since when the runtime has been away; zero while it is there.
	outage time.Time
}

func (s *Worker) pod() *corev1.Pod { return s.plan.Pod }

// until converges the pod until the goal holds, the pod has ended or it can't go
// on. It returns whether the pod has ended. While another command owns the pod,
// it only observes.
func (s *Worker) until(ctx context.Context, goal lifecycle.Goal) (ended bool, err error) {
	s.goal = goal
	s.startProbing()
	defer func() {
		err = errors.Join(err, s.stopProbing())
		s.tellExits()
	}()
	for {
		s.tellExits()
		if cause := context.Cause(ctx); cause != nil {
			return false, s.interrupted(cause)
		}
		owns, err := s.own(ctx)
		if errors.Is(err, store.ErrChanged) {
			continue
		} else if err != nil {
			return false, s.orInterrupted(ctx, err)
		}
		if owns && !s.outage.IsZero() {
			_, waiting := s.reached(goal)
			if err := s.awaitRuntime(ctx); err != nil {
				return false, s.whileWaiting(ctx, err, waiting)
			}
			continue
		}
		d, err := s.step(ctx, owns)
		if errors.Is(err, store.ErrChanged) {
			continue
		} else if err != nil {
			if len(s.failures) > 0 {
				return false, s.failed() // says more than the end of the context
			}
			return false, s.orInterrupted(ctx, err)
		}
		done, waiting := s.reached(goal)
		switch {
		case len(s.failures) > 0:
			return false, s.failed()
		case done:
			return false, nil
		case d.Ended:
			return true, nil
		case owns && len(d.Actions) > 0:
			continue
		}
		if err := s.await(ctx, d, owns); err != nil {
			return false, s.whileWaiting(ctx, err, waiting)
		}
	}
}

// step decides what to do about the pod, and does it if this command owns the
// pod.
func (s *Worker) step(ctx context.Context, owns bool) (lifecycle.Decision, error) {
	if owns {
		if err := s.finishStops(ctx); err != nil {
			return lifecycle.Decision{}, err
		}
		if err := s.keepProbed(false); err != nil {
			return lifecycle.Decision{}, err
		}
	}
	d := lifecycle.Next(s.pod(), s.world())
	if !owns {
		return d, nil
	}
	return d, s.execute(ctx, d.Actions)
}

// reached tells whether a goal holds, and if not, what is missing.
func (s *Worker) reached(goal lifecycle.Goal) (bool, string) {
	done, waiting := lifecycle.StartedGoal(s.pod(), s.obs, s.mine)
	switch goal {
	case lifecycle.GoalCompleted:
		return false, "the pod has not completed"
	case lifecycle.GoalStarted:
		return done, waiting
	case lifecycle.GoalReady:
		if !done {
			return false, waiting
		}
	}
	status := s.Status()
	return goal.ReachedBy(status), goal.Missing(status)
}

// await waits, without the pod's lock, for the next thing that Next would act
// upon. A command that does not own the pod looks again after followPoll.
func (s *Worker) await(ctx context.Context, d lifecycle.Decision, owns bool) error {
	relist := observe.RelistAfter
	if owns {
		s.probe()
		s.sayBackOff(d)
	} else {
		s.probing.Store(nil)
		s.prober.Set(nil)
		d.Until, relist = time.Time{}, followPoll
	}
	again := false
	err := s.unlocked(ctx, func(ctx context.Context) error {
		err := observe.AwaitChange(ctx, s.Client, s.obs, d, s.wake, relist)
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
	return s.relist(ctx)
}

// awaitRuntime waits, without the pod's lock, for a runtime that does not answer:
// what was observed before that is not acted upon.
func (s *Worker) awaitRuntime(ctx context.Context) error {
	err := s.unlocked(ctx, func(ctx context.Context) error { return observe.Sleep(ctx, observe.OutagePoll) })
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	return s.relist(ctx)
}

// followPoll is how often a command observes a pod that another one owns.
const followPoll = 500 * time.Millisecond

// longestOutage is how long a runtime may be away while a pod is waited for: one
// that is restarted is back by then.
const longestOutage = time.Minute

// relist looks at everything anew. While the runtime is away, what is known
// holds.
func (s *Worker) relist(ctx context.Context) error {
	seen, err := s.Observe(ctx, s.plan.ID.UID)
	if !observe.IsUnavailable(err) {
		s.outage, s.obs = time.Time{}, seen
		return err
	}
	if s.outage.IsZero() {
		s.outage = time.Now()
	}
	if time.Since(s.outage) < longestOutage {
		return nil
	}
	return err
}

// sayBackOff reports containers that are held back, once for each exit.
func (s *Worker) sayBackOff(d lifecycle.Decision) {
	for _, name := range d.BackOff {
		c := s.obs.Container(name)
		if c == nil || s.saidBackOff[c.ID] {
			continue
		}
		if s.saidBackOff == nil {
			s.saidBackOff = map[string]bool{}
		}
		s.saidBackOff[c.ID] = true
		s.emit(event.Warning, event.BackOffStart, name,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, s.plan.ID.Ref()))
	}
}

// emit reports an event about a container of the pod, or about the pod itself.
func (s *Worker) emit(kind, reason, container, message string) {
	path := ""
	if container != "" {
		path = lifecycle.FindContainer(s.pod(), container).EventPath
	}
	s.journal.Emit(event.Event{Type: kind, Reason: reason, FieldPath: path, Message: message})
}

// fail notes that one container can't be started; the others go on.
func (s *Worker) fail(err error) { s.failures = append(s.failures, s.ofPod(err)) }

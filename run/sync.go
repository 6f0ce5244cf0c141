package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/probe"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// syncer brings one pod to a goal: it observes, asks Next, executes, and does
// so again. One syncer serves one command; what it knows is only a memory of
// what the runtime said.
type syncer struct {
	*Engine
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

func (s *syncer) pod() *corev1.Pod { return s.plan.Pod }

// until converges the pod until the goal holds, the pod has ended or it can't go
// on. It returns whether the pod has ended. While another command owns the pod,
// it only observes.
func (s *syncer) until(ctx context.Context, goal lifecycle.Goal) (ended bool, err error) {
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
func (s *syncer) step(ctx context.Context, owns bool) (lifecycle.Decision, error) {
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
func (s *syncer) reached(goal lifecycle.Goal) (bool, string) {
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
	status := s.status()
	return goal.ReachedBy(status), goal.Missing(status)
}

// await waits, without the pod's lock, for the next thing that Next would act
// upon. A command that does not own the pod looks again after followPoll.
func (s *syncer) await(ctx context.Context, d lifecycle.Decision, owns bool) error {
	relist := relistAfter
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
		err := waitAny(ctx, s.Client, s.obs, d, s.wake, relist)
		again = errors.Is(err, errRelist) || status.Code(err) == codes.NotFound // removed by the pod's owner
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
func (s *syncer) awaitRuntime(ctx context.Context) error {
	err := s.unlocked(ctx, func(ctx context.Context) error { return sleep(ctx, outagePoll) })
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	return s.relist(ctx)
}

// followPoll is how often a command observes a pod that another one owns.
const followPoll = 500 * time.Millisecond

// sleep waits, until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// longestOutage is how long a runtime may be away while a pod is waited for: one
// that is restarted is back by then.
const longestOutage = time.Minute

// relist looks at everything anew. While the runtime is away, what is known
// holds.
func (s *syncer) relist(ctx context.Context) error {
	seen, err := s.observe(ctx, s.plan.ID.UID)
	if !unavailable(err) {
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
func (s *syncer) sayBackOff(d lifecycle.Decision) {
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
func (s *syncer) emit(kind, reason, container, message string) {
	path := ""
	if container != "" {
		path = lifecycle.FindContainer(s.pod(), container).EventPath
	}
	s.journal.Emit(event.Event{Type: kind, Reason: reason, FieldPath: path, Message: message})
}

// fail notes that one container can't be started; the others go on.
func (s *syncer) fail(err error) { s.failures = append(s.failures, s.ofPod(err)) }

// ofPod names the pod in an error that names a container alone: a command may
// have several pods.
func (s *syncer) ofPod(err error) error {
	e, ok := err.(*problem.Error)
	if !ok || !strings.HasPrefix(e.Object, "container ") {
		return err
	}
	named := *e
	named.Object = "pod " + s.plan.ID.String() + ": " + e.Object
	return &named
}

// failed is the error of all failures.
func (s *syncer) failed() error { return errors.Join(s.failures...) }

// whileWaiting is the error of a wait: with what was waited for, unless the pod
// is gone.
func (s *syncer) whileWaiting(ctx context.Context, err error, waiting string) error {
	if _, says := errors.AsType[*problem.Error](err); says {
		return err
	}
	err = fmt.Errorf("%w while %s", err, waiting)
	if ctx.Err() == nil {
		return runtimeError(s.plan.ID, err)
	}
	return s.orInterrupted(ctx, err)
}

// orEnded is orInterrupted for a step that is about no single pod.
func orEnded(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	err = fmt.Errorf("read the host and its runtime: %w: %w", cause, err)
	if _, timeout := errors.AsType[problem.TimeoutError](cause); timeout {
		return &problem.Error{Kind: problem.Deadline, Err: err, Hint: "increase --timeout"}
	}
	return err
}

// orInterrupted prefers the reason for which the context ended over the error
// that a call made of it.
func (s *syncer) orInterrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil {
		return err
	}
	var pe *problem.Error
	if errors.As(err, &pe) && pe.Kind == problem.Image {
		return err // says more: the image's own trouble
	}
	if timeout := (problem.TimeoutError{}); s.pulls != nil && errors.As(cause, &timeout) {
		if trouble := s.pulls.Trouble(); trouble != nil {
			return s.ofPod(trouble) // whatever else had not come to its end
		}
	}
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, s.doing(err))
	}
	return s.interrupted(err)
}

// doing leaves of an error what was being done, if it says so: that the call was
// canceled then is nobody's news.
func (s *syncer) doing(err error) error {
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Op != "" {
		return errors.New(e.Op)
	}
	return s.nameless(err)
}

// nameless drops the pod's name from an error that gets it anew.
func (s *syncer) nameless(err error) error {
	if e, ok := err.(*problem.Error); ok && e.Object == "pod "+s.plan.ID.String() {
		short := *e
		short.Object = ""
		return &short
	}
	return err
}

// inStep says in which step of the pod's an error came up.
func (s *syncer) inStep(step string, err error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: "pod " + s.plan.ID.String(), Op: step, Err: s.nameless(err)}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		out.Kind, out.Hint = e.Kind, e.Hint
	}
	return out
}

// interrupted makes the error of a sync that was cut short.
func (s *syncer) interrupted(cause error) error {
	var timeout problem.TimeoutError
	if errors.As(cause, &timeout) {
		return deadlineError(s.plan.ID, cause, "")
	}
	return fmt.Errorf("pod %s: %w", s.plan.ID, cause)
}

// deadlineError is the error of a command that took too long, or was ended.
func deadlineError(id identity.Pod, cause error, waiting string) error {
	if waiting != "" {
		cause = fmt.Errorf("%w while %s", cause, waiting)
	}
	return &problem.Error{Kind: problem.Deadline, Object: "pod " + id.String(), Err: cause,
		Hint: "increase --timeout; 'podrun get' and 'podrun logs' show the progress"}
}

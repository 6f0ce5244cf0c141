package stop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/container/hook"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// stop describes how to stop one container.
type stop struct {
	lifecycle.Container
	end *graceEnd
	// message is the message of the Killing event.
	message string
	// hook is the preStop hook to run; nil if there is none, or it has ended.
	hook *hook.Plan
	// asked is true if an earlier owner has asked the container to stop.
	asked bool
	// afterOthers is true if other containers must exit first. Each channel in after is closed when
	// one of them has exited.
	afterOthers bool
	after       []chan struct{}
}

// Container stops one container of the pod, by its ID.
func (s *Stopper) Container(ctx context.Context, id string, grace time.Duration, message string) error {
	at := slices.IndexFunc(s.pod.Observed.Containers, func(c lifecycle.Container) bool { return c.ID == id })
	if at < 0 {
		return nil
	}
	c := s.pod.Observed.Containers[at]
	stops := s.planStops([]lifecycle.Container{c}, grace)
	stops[0].message = message
	if err := s.recordEnding(stops, grace); err != nil && !store.CannotWrite(err) {
		return err
	}
	err := s.lease.Do(ctx, s.lostOrShortened(stops), func(ctx context.Context) error { return s.stopContainer(ctx, stops[0]) })
	if err != nil {
		return s.pod.OfRuntime(err)
	}
	s.lease.Lock.Reload()
	s.updateStopped(ctx, c)
	return nil
}

// stopContainer runs the preStop hook, waits for the containers that must exit first, and then
// stops the container. The container gets the rest of the grace period.
func (s *Stopper) stopContainer(ctx context.Context, st *stop) error {
	s.pod.Emit(event.Normal, event.KillingContainer, st.Name, st.message)
	hurried, done := s.hurried(ctx)
	defer done()
	progress, end := s.reportProgress(st)
	defer end()
	if st.hook != nil {
		progress.waitsFor(event.StopRunsHook)
		s.runPreStop(hurried, st)
		if ctx.Err() != nil {
			// The hook was interrupted, so the container must not be stopped.
			return s.notExited(st)
		}
		s.note(ctx, st, true, !st.afterOthers)
		progress.waitsFor(waitsForOthers)
	}
	for _, ended := range st.after {
		select {
		case <-ended:
		case <-hurried.Done():
		}
	}
	if st.afterOthers && !st.asked && ctx.Err() == nil {
		s.note(ctx, st, false, true)
	}
	progress.waitsFor(event.StopWaits)
	return s.stopWithRetries(ctx, hurried, st)
}

func (s *Stopper) notExited(st *stop) error {
	return fmt.Errorf("container %s (%s) has not exited yet", st.Name, observe.ShortID(st.ID))
}

// preStop returns the container's preStop hook from the pod's spec. If the spec is unknown, it returns
// the hook from the annotation with which the container was created.
func (s *Stopper) preStop(c lifecycle.Container) (hook.Plan, bool) {
	spec := lifecycle.FindContainer(s.pod.Spec(), c.Name).Container
	if spec == nil {
		var handler corev1.LifecycleHandler
		if json.Unmarshal([]byte(c.Annotations[identity.AnnotationPreStopHandler]), &handler) != nil {
			return hook.Plan{}, false
		}
		spec = &corev1.Container{Name: c.Name, Lifecycle: &corev1.Lifecycle{PreStop: &handler}}
	}
	return hook.New(s.pod.Plan.ID, spec, hook.PreStop)
}

// runPreStop runs a preStop hook for up to the grace period. It reports a failure, which does not
// prevent the stop.
func (s *Stopper) runPreStop(ctx context.Context, st *stop) {
	limited, cancel := st.end.bound(ctx)
	defer cancel()
	if err := hook.Apply(limited, *st.hook, s.pod.HookTarget(st.Container)); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		s.pod.Emit(event.Warning, event.FailedPreStopHook, st.Name, hook.EventOf(err, "PreStopHook failed"))
	}
}

// stopWithRetries stops a container within the rest of its grace period, and retries a stop that fails. When
// the context hurried ends, it kills the container. When the grace period becomes shorter, it asks the runtime
// again.
func (s *Stopper) stopWithRetries(ctx, hurried context.Context, st *stop) error {
	var r retries
	for {
		left, within := st.end.afterTERM().Round(time.Second), hurried
		if hurried.Err() != nil {
			left, within = 0, ctx
		}
		call, cancel := st.end.untilShorter(within)
		err := s.pod.Node.Client.StopContainer(call, st.ID, left)
		shorter := call.Err() != nil
		cancel()
		switch {
		case err == nil || observe.Settled(ctx, s.pod.Node.Client, st.Container):
			return nil
		case shorter && within.Err() == nil:
			continue
		case ctx.Err() == nil && within == hurried && hurried.Err() != nil:
			// The next iteration kills the container.
			continue
		case ctx.Err() != nil && cri.Interrupted(err):
			return s.notExited(st)
		case ctx.Err() != nil || !r.failed(within):
			return fmt.Errorf("stop container %s (%s): %w", st.Name, observe.ShortID(st.ID), err)
		}
	}
}

// updateStopped updates the observed state of a stopped container. The runtime may no longer have
// the container. A runtime on a busy host may also not have recorded the exit yet, because
// containerd reports success as soon as the container's task has exited.
func (s *Stopper) updateStopped(ctx context.Context, c lifecycle.Container) {
	now, err := observe.ReadContainer(ctx, s.pod.Node.Client, c.ID, c.SandboxID, false)
	if err == nil && now.State == lifecycle.Running && observe.Settled(ctx, s.pod.Node.Client, c) {
		now, err = observe.ReadContainer(ctx, s.pod.Node.Client, c.ID, c.SandboxID, false)
	}
	if err != nil || now.State == lifecycle.Running {
		now = c
		now.State = lifecycle.Exited
	}
	s.pod.Observed.Put(now)
}

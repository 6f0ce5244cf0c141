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

// minimumGrace is the minimum time that a container has to stop, even if its preStop hook, or the
// containers before it, have used up the pod's grace period (kubelet, minimumGracePeriodInSeconds).
const minimumGrace = 2 * time.Second

// stop describes how to stop one container.
type stop struct {
	lifecycle.Container
	grace time.Duration
	// message is the message of the Killing event.
	message string
	// stopping is true if an earlier owner has run the container's preStop hook and asked the
	// container to stop.
	stopping bool
	after    []chan struct{}
}

// Container stops one container of the pod, by its ID.
func (s *Stopper) Container(ctx context.Context, id string, grace time.Duration, message string) error {
	at := slices.IndexFunc(s.pod.Observed.Containers, func(c lifecycle.Container) bool { return c.ID == id })
	if at < 0 {
		return nil
	}
	c := s.pod.Observed.Containers[at]
	st := s.planStops([]lifecycle.Container{c}, grace)[0]
	st.message = message
	if err := s.recordEnding([]lifecycle.Container{c}, grace); err != nil && !store.CannotWrite(err) {
		return err
	}
	err := s.lease.Do(ctx, s.lease.Lost, func(ctx context.Context) error { return s.stopContainer(ctx, st) })
	if err != nil {
		return s.pod.OfRuntime(err)
	}
	s.updateStopped(ctx, c)
	return nil
}

// stopContainer runs the preStop hook, waits for the containers that must exit first, and then
// stops the container. The container gets the rest of the grace period.
func (s *Stopper) stopContainer(ctx context.Context, st stop) error {
	s.pod.Emit(event.Normal, event.KillingContainer, st.Name, st.message)
	start := time.Now()
	hurried, done := s.hurried(ctx)
	defer done()
	if plan, ok := s.preStop(st.Container); ok && st.grace > 0 && !st.stopping {
		s.runPreStop(hurried, st.Container, plan, st.grace)
	}
	for _, ended := range st.after {
		select {
		case <-ended:
		case <-hurried.Done():
		}
	}
	return s.stopWithRetries(ctx, hurried, st, start)
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
func (s *Stopper) runPreStop(ctx context.Context, c lifecycle.Container, plan hook.Plan, grace time.Duration) {
	limited, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := hook.Apply(limited, plan, s.pod.HookTarget(c)); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		s.pod.Emit(event.Warning, event.FailedPreStopHook, c.Name, hook.EventOf(err, "PreStopHook failed"))
	}
}

// stopWithRetries stops a container within the rest of its grace period, which began at start, and retries a
// stop that fails. When the context hurried ends, it kills the container.
func (s *Stopper) stopWithRetries(ctx, hurried context.Context, st stop, start time.Time) error {
	var r retries
	for {
		left, within := max(st.grace-time.Since(start), min(st.grace, minimumGrace)).Round(time.Second), hurried
		if hurried.Err() != nil {
			left, within = 0, ctx
		}
		err := s.pod.Node.Client.StopContainer(within, st.ID, left)
		switch {
		case err == nil || observe.Settled(ctx, s.pod.Node.Client, st.Container):
			return nil
		case ctx.Err() == nil && within == hurried && hurried.Err() != nil:
			// The next iteration kills the container.
			continue
		case ctx.Err() != nil && cri.Interrupted(err):
			return fmt.Errorf("container %s (%s) has not exited yet", st.Name, observe.ShortID(st.ID))
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

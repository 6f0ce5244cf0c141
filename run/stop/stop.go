package stop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// hurryGrace is how long containers may take to stop when podrun will soon be killed. GitHub's runner
// sends SIGKILL 2.5 s after SIGTERM, and podrun needs the rest of this time to remove the pod.
const hurryGrace = 1500 * time.Millisecond

// Stopper stops a pod's containers.
type Stopper struct {
	pod   *pod.Pod
	lease *lease.Lease
	Hurry <-chan struct{} // RunOptions.Hurry
	// Removes is true if podrun removes the pod after the stop. Recreates is true if podrun then
	// recreates the pod from its checkpoint.
	Removes, Recreates bool
}

// NewStopper returns the stopper of the lease's pod.
func NewStopper(l *lease.Lease) *Stopper { return &Stopper{pod: l.Pod, lease: l} }

// hurried returns a context that is canceled hurryGrace after Hurry is closed.
func (s *Stopper) hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if s.Hurry == nil {
		return ctx, cancel
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-s.Hurry:
		}
		select {
		case <-ctx.Done():
		case <-time.After(hurryGrace):
			cancel()
		}
	}()
	return ctx, cancel
}

// Pod stops the whole pod. It first stops the app containers concurrently. Then it stops the sidecars
// in reverse order, with the rest of the grace period, and finally the sandboxes. It removes init
// containers that podrun created before their turn, unless podrun removes the pod after the stop. Pod
// returns store.ErrChanged if another command took over the pod.
func (s *Stopper) Pod(ctx context.Context, grace time.Duration) error {
	errs := []error{s.Containers(ctx, grace)}
	if s.lease.Lock.Held == nil || errors.Is(errs[0], store.ErrChanged) {
		return errs[0]
	}
	if err := s.recordEndingSandboxes(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if !s.Removes {
		errs = append(errs, s.removeUnstartedInits(ctx))
	}
	return errors.Join(append(errs, s.stopSandboxes(ctx, func(lifecycle.Sandbox) bool { return true }))...)
}

// Owned makes this command the owner of a pod and stops it. If another command takes over the pod to
// stop or remove it, Owned waits for that command.
func (s *Stopper) Owned(ctx context.Context, grace time.Duration) error {
	s.lease.Ending = true
	for first := true; ; first = false {
		r, err := s.lease.Lock.Owner()
		switch {
		case err != nil:
			return err
		case first:
		case r == nil || r.Incarnation != s.lease.Lock.Incarnation:
			// Another command has removed the pod.
			return nil
		case !s.lease.Lock.Owned() && s.lease.Operates(r):
			if err := s.lease.AwaitEnd(ctx, r, nil); !errors.Is(err, store.ErrChanged) {
				return err
			}
			continue
		}
		if !s.lease.Lock.Owned() {
			if err := s.lease.Acquire(store.PurposeStop); err != nil {
				return err
			}
		}
		if err := s.Pod(ctx, grace); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}

// Containers stops all containers. It stops the sidecars last.
func (s *Stopper) Containers(ctx context.Context, grace time.Duration) error {
	apps, sidecars := s.running()
	slices.Reverse(sidecars)
	return s.stopAll(ctx, append(apps, sidecars...), len(apps), grace)
}

// removeUnstartedInits removes the init containers that podrun created but has not started. They exist
// because podrun, unlike the kubelet, creates an init container while the previous one runs.
func (s *Stopper) removeUnstartedInits(ctx context.Context) error {
	var errs []error
	for _, c := range slices.Clone(s.pod.Observed.Containers) {
		if c.State != lifecycle.Created || !lifecycle.FindContainer(s.pod.Spec(), c.Name).Init {
			continue
		}
		errs = append(errs, s.RemoveUnstarted(ctx, c.Name, c.ID))
	}
	return errors.Join(errs...)
}

// RemoveUnstarted removes a container that podrun created but has not started. It also removes the
// container from the observation.
func (s *Stopper) RemoveUnstarted(ctx context.Context, name, id string) error {
	if err := RemoveContainer(ctx, s.pod.Node.Client, id); err != nil {
		return fmt.Errorf("remove container %s (%s), which was not started: %w", name, observe.ShortID(id), err)
	}
	s.pod.Observed.Drop(id)
	return nil
}

// running lists the running app and regular init containers, and the running sidecars in the order of
// the spec.
func (s *Stopper) running() (apps, sidecars []lifecycle.Container) {
	rank := map[string]bool{}
	for i := range s.pod.Spec().Spec.InitContainers {
		c := &s.pod.Spec().Spec.InitContainers[i]
		if !podutil.IsRestartableInitContainer(c) {
			continue
		}
		rank[c.Name] = true
		for _, have := range s.pod.Observed.Containers {
			if have.Name == c.Name && have.State == lifecycle.Running {
				sidecars = append(sidecars, have)
			}
		}
	}
	for _, have := range s.pod.Observed.Containers {
		if have.State == lifecycle.Running && !rank[have.Name] {
			apps = append(apps, have)
		}
	}
	return apps, sidecars
}

// stopAll stops containers without the pod's lock. It stops list[:together] concurrently, and the
// others one after the other. As in the kubelet, it emits all Killing events and starts all preStop
// hooks at the beginning. If the grace period is 0, it stops all containers concurrently. stopAll
// returns store.ErrChanged if another command took over the pod.
func (s *Stopper) stopAll(ctx context.Context, list []lifecycle.Container, together int, grace time.Duration) error {
	stops := s.planStops(list, grace)
	for i := together; i < len(list) && grace > 0; i++ {
		stops[i].afterOthers = true
	}
	if err := s.recordEnding(stops, grace); err != nil || len(list) == 0 {
		return err
	}
	errs := make([]error, len(list))
	ended := make([]chan struct{}, len(list))
	for i := range list {
		ended[i] = make(chan struct{})
	}
	lost := s.lease.Do(ctx, s.lostOrShortened(stops), func(ctx context.Context) error {
		defer s.probeReadiness(ctx, stops)()
		var wg sync.WaitGroup
		for i := range list {
			if stops[i].afterOthers {
				stops[i].after = ended[:i]
			}
			wg.Go(func() {
				defer close(ended[i])
				errs[i] = s.stopContainer(ctx, stops[i])
			})
		}
		wg.Wait()
		return nil
	})
	if errors.Is(lost, store.ErrChanged) {
		return lost
	}
	if lost == nil {
		s.lease.Lock.Reload()
		for i, c := range list {
			if errs[i] == nil {
				s.updateStopped(ctx, c)
			}
		}
	}
	if lost != nil && ctx.Err() == nil {
		// The loss of ownership explains why the stops did not complete.
		return lost
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return lost
}

// Finish stops the containers and sandboxes that an earlier owner was stopping. They may exit at any
// time, so podrun must not treat them as running. The containers come first: stopping a sandbox kills
// its containers without their preStop hooks and grace periods.
func (s *Stopper) Finish(ctx context.Context) error {
	if len(s.lease.Lock.Ending) == 0 {
		return nil
	}
	apps, sidecars := s.running()
	var list []lifecycle.Container
	for _, c := range append(apps, sidecars...) {
		if _, told := s.lease.Lock.Ending[c.ID]; told {
			list = append(list, c)
		}
	}
	if len(list) > 0 {
		if err := s.stopAll(ctx, list, len(list), s.pod.GracePeriod()); err != nil {
			return s.pod.OfRuntime(err)
		}
	}
	return s.pod.OfRuntime(s.stopSandboxes(ctx, func(sb lifecycle.Sandbox) bool {
		_, told := s.lease.Lock.Ending[sb.ID]
		return told && sb.Ready
	}))
}

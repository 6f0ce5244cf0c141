package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/container/hook"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// minimumGrace is the minimum time for a container to stop after its preStop hook or the
// containers before it have used up the pod's grace period (kubelet,
// minimumGracePeriodInSeconds).
const minimumGrace = 2 * time.Second

// hurryGrace is how long containers that are being stopped may still take once podrun
// is about to be killed: GitHub's runner sends SIGKILL 2.5 s after SIGTERM, and the
// removal of the pod takes the rest.
const hurryGrace = 1500 * time.Millisecond

// stopper stops a pod's containers.
type stopper struct {
	pod   *pod.Pod
	lease *lease.Lease
	hurry <-chan struct{} // RunOptions.Hurry
	// dooms is true if the pod is removed after it was stopped; again, if it is then created
	// again from its checkpoint.
	dooms, again bool
}

// hurried returns a context that ends hurryGrace after podrun is about to be killed.
func (w *stopper) hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if w.hurry == nil {
		return ctx, cancel
	}
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-w.hurry:
		}
		select {
		case <-ctx.Done():
		case <-time.After(hurryGrace):
			cancel()
		}
	}()
	return ctx, cancel
}

// stopPod stops the whole pod: app containers concurrently, then the sidecars in reverse
// order with the rest of the grace period, then the sandboxes. The error is
// store.ErrChanged if another command took the pod over.
func (w *stopper) stopPod(ctx context.Context, grace time.Duration) error {
	errs := []error{w.stopContainers(ctx, grace)}
	if w.lease.Lock.Held == nil || errors.Is(errs[0], store.ErrChanged) {
		return errs[0]
	}
	if err := w.noteEndingSandboxes(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, w.stopSandboxes(ctx, func(lifecycle.Sandbox) bool { return true }))...)
}

// stopOwned makes this command the owner of a pod and stops it. Where another
// command takes it over to stop or remove it, that one does so.
func (w *stopper) stopOwned(ctx context.Context, grace time.Duration) error {
	w.lease.Ending = true
	for first := true; ; first = false {
		r, err := w.lease.Lock.Owner()
		switch {
		case err != nil:
			return err
		case first:
		case r == nil || r.Incarnation != w.lease.Lock.Incarnation:
			return nil // another command has removed it
		case !w.lease.Lock.Owned() && w.lease.Operates(r):
			if err := w.lease.AwaitEnd(ctx, r, nil); !errors.Is(err, store.ErrChanged) {
				return err
			}
			continue
		}
		if !w.lease.Lock.Owned() {
			if err := w.lease.Acquire(store.PurposeStop); err != nil {
				return err
			}
		}
		if err := w.stopPod(ctx, grace); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}

// stopContainers stops all containers, the sidecars last.
func (w *stopper) stopContainers(ctx context.Context, grace time.Duration) error {
	apps, sidecars := w.running()
	slices.Reverse(sidecars)
	return w.stopAll(ctx, append(apps, sidecars...), len(apps), grace)
}

// running lists what runs: containers and plain init containers, and the
// sidecars in the order of the spec.
func (w *stopper) running() (apps, sidecars []lifecycle.Container) {
	rank := map[string]bool{}
	for i := range w.pod.Spec().Spec.InitContainers {
		c := &w.pod.Spec().Spec.InitContainers[i]
		if !podutil.IsRestartableInitContainer(c) {
			continue
		}
		rank[c.Name] = true
		for _, have := range w.pod.Observed.Containers {
			if have.Name == c.Name && have.State == lifecycle.Running {
				sidecars = append(sidecars, have)
			}
		}
	}
	for _, have := range w.pod.Observed.Containers {
		if have.State == lifecycle.Running && !rank[have.Name] {
			apps = append(apps, have)
		}
	}
	return apps, sidecars
}

// stopAll stops containers, without the pod's lock: the first ones concurrently, the
// others one after the other. It notifies all of them at the start, and runs their
// preStop hooks from then on, as the kubelet does. Without a grace period there is no
// order. The error is store.ErrChanged if another command took the pod over.
func (w *stopper) stopAll(ctx context.Context, list []lifecycle.Container, together int, grace time.Duration) error {
	stops := w.planStops(list, grace)
	if err := w.noteEnding(list, grace); err != nil || len(list) == 0 {
		return err
	}
	errs := make([]error, len(list))
	ended := make([]chan struct{}, len(list))
	for i := range list {
		ended[i] = make(chan struct{})
	}
	lost := w.lease.Do(ctx, w.lease.Lost, func(ctx context.Context) error {
		var wg sync.WaitGroup
		for i := range list {
			if i >= together && grace > 0 {
				stops[i].after = ended[:i]
			}
			wg.Go(func() {
				defer close(ended[i])
				errs[i] = w.stopContainer(ctx, stops[i])
			})
		}
		wg.Wait()
		return nil
	})
	if errors.Is(lost, store.ErrChanged) {
		return lost
	}
	if lost == nil {
		for i, c := range list {
			if errs[i] == nil {
				w.noteStopped(ctx, c)
			}
		}
	}
	if lost != nil && ctx.Err() == nil {
		return lost // explains why the stops did not complete
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return lost
}

// stop is how one container is stopped.
type stop struct {
	lifecycle.Container
	grace   time.Duration
	message string // of the Killing event
	again   bool   // an earlier owner has asked it to stop, and run its preStop hook
	after   []chan struct{}
}

// planStops plans the stops of containers. A container that is already being stopped
// keeps its deadline: its grace period is not extended.
func (w *stopper) planStops(list []lifecycle.Container, grace time.Duration) []stop {
	var out []stop
	for _, c := range list {
		st := stop{Container: c, grace: grace, message: "Stopping container " + c.Name}
		if end, told := w.lease.Lock.Ending[c.ID]; told {
			st.again, st.grace = true, min(grace, max(time.Until(end), 0))
		}
		out = append(out, st)
	}
	return out
}

// finishStops stops the containers that an earlier owner had asked to stop: they
// end, now or later, and must not be taken for running ones.
func (w *stopper) finishStops(ctx context.Context) error {
	if len(w.lease.Lock.Ending) == 0 {
		return nil
	}
	err := w.stopSandboxes(ctx, func(sb lifecycle.Sandbox) bool {
		_, told := w.lease.Lock.Ending[sb.ID]
		return told && sb.Ready
	})
	if err != nil {
		return w.pod.OfRuntime(err)
	}
	apps, sidecars := w.running()
	var list []lifecycle.Container
	for _, c := range append(apps, sidecars...) {
		if _, told := w.lease.Lock.Ending[c.ID]; told {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return w.pod.OfRuntime(w.stopAll(ctx, list, len(list), w.pod.GracePeriod()))
}

// noteEnding writes down which containers are about to be asked to stop, and when
// their grace periods end; for a removal, that the pod is being removed, and with it its
// sandboxes.
func (w *stopper) noteEnding(list []lifecycle.Container, grace time.Duration) error {
	if len(list) == 0 && !w.dooms {
		return nil
	}
	now := time.Now()
	err := w.lease.Lock.Update(func(r *store.OwnerRecord) {
		ending := maps.Clone(r.Ending)
		if ending == nil {
			ending = map[string]time.Time{}
		}
		for _, c := range list {
			ending[c.ID] = now.Add(grace)
			if before, told := r.Ending[c.ID]; told && before.Before(ending[c.ID]) {
				ending[c.ID] = before
			}
		}
		if w.dooms {
			maps.Copy(ending, w.endingSandboxes(r.Ending))
		}
		r.Ending = ending
		if w.dooms {
			r.BeginRemoval(now, grace, w.again)
		}
	})
	return err
}

// killContainer stops one container of the pod, by its ID.
func (w *stopper) killContainer(ctx context.Context, id string, grace time.Duration, message string) error {
	at := slices.IndexFunc(w.pod.Observed.Containers, func(c lifecycle.Container) bool { return c.ID == id })
	if at < 0 {
		return nil
	}
	c := w.pod.Observed.Containers[at]
	st := w.planStops([]lifecycle.Container{c}, grace)[0]
	st.message = message
	if err := w.noteEnding([]lifecycle.Container{c}, grace); err != nil && !store.CannotWrite(err) {
		return err
	}
	err := w.lease.Do(ctx, w.lease.Lost, func(ctx context.Context) error { return w.stopContainer(ctx, st) })
	if err != nil {
		return w.pod.OfRuntime(err)
	}
	w.noteStopped(ctx, c)
	return nil
}

// stopContainer runs the preStop hook, waits for the containers that have to end
// before, and stops the container with what both have left of the grace period.
func (w *stopper) stopContainer(ctx context.Context, st stop) error {
	w.pod.Emit(event.Normal, event.KillingContainer, st.Name, st.message)
	start := time.Now()
	hurried, done := w.hurried(ctx)
	defer done()
	if plan, ok := w.preStop(st.Container); ok && st.grace > 0 && !st.again {
		w.runPreStop(hurried, st.Container, plan, st.grace)
	}
	for _, ended := range st.after {
		select {
		case <-ended:
		case <-hurried.Done():
		}
	}
	return w.stopAgain(ctx, hurried, st, start)
}

// preStop finds the container's hook in the pod's spec, or where that is not
// known, in the annotation that the container was made with.
func (w *stopper) preStop(c lifecycle.Container) (hook.Plan, bool) {
	spec := lifecycle.FindContainer(w.pod.Spec(), c.Name).Container
	if spec == nil {
		var handler corev1.LifecycleHandler
		if json.Unmarshal([]byte(c.Annotations[identity.AnnotationPreStopHandler]), &handler) != nil {
			return hook.Plan{}, false
		}
		spec = &corev1.Container{Name: c.Name, Lifecycle: &corev1.Lifecycle{PreStop: &handler}}
	}
	return hook.New(w.pod.Plan.ID, spec, hook.PreStop)
}

// runPreStop runs a preStop hook for as long as the grace period lasts. That it
// fails is reported, and stops nothing.
func (w *stopper) runPreStop(ctx context.Context, c lifecycle.Container, plan hook.Plan, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := hook.Apply(ctx, plan, w.pod.HookTarget(c)); err != nil {
		w.pod.Emit(event.Warning, event.FailedPreStopHook, c.Name, hookEvent(err, "PreStopHook failed"))
	}
}

// noteStopped takes in how a stopped container has ended. The runtime may have
// forgotten it already, or, on a busy host, not yet recorded its exit: containerd answers
// that a container whose task has ended is stopped.
func (w *stopper) noteStopped(ctx context.Context, c lifecycle.Container) {
	now, err := observe.ReadContainer(ctx, w.pod.Node.Client, c.ID, c.SandboxID, false)
	if err == nil && now.State == lifecycle.Running && observe.Settled(ctx, w.pod.Node.Client, c) {
		now, err = observe.ReadContainer(ctx, w.pod.Node.Client, c.ID, c.SandboxID, false)
	}
	if err != nil || now.State == lifecycle.Running {
		now = c
		now.State = lifecycle.Exited
	}
	w.pod.Observed.Put(now)
}

// Stop stops the pod until a command starts it, and keeps its directory, logs and
// the records of its containers. grace replaces the pod's own grace period; nil
// keeps that. The error is of kind Runtime or Deadline, or the cause that ended
// ctx.
func (w *Worker) Stop(ctx context.Context, grace *time.Duration) error {
	if err := w.lease.Acquire(store.PurposeStop); err != nil {
		return err
	}
	period := w.pod.GracePeriod()
	if grace != nil {
		period = *grace
	}
	id := w.pod.Plan.ID
	// Written first: a command that waits for the pod sees its containers end.
	if err := w.pod.MarkStopped("was stopped by "+store.ShownHolder(w.pod.Node.Holder()), "'podrun start "+id.Name+" -n "+id.Namespace+"' starts it again"); err != nil {
		return pod.RuntimeError(id, err)
	}
	if err := w.stop.stopOwned(ctx, period); err != nil {
		return w.explain(ctx, w.pod.OfRuntime(err))
	}
	return nil
}

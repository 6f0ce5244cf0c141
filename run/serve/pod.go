package serve

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// pod is the supervision of one pod, by a goroutine of its own.
type pod struct {
	s  *Supervisor
	id identity.Pod // without a UID: that may change
	// changed has something when the source or the settings may have changed, owner
	// when the pod's state on disk may have.
	changed, owner chan struct{}
	progress       reconcile.Progress
	waitsForOwner  atomic.Bool

	mu       sync.Mutex // guards all below
	step     Step       // that is done now
	reloaded bool       // the settings are others than those of the step

	failures map[Verb]failure // the last one of each step; none after a success
	// unstarted is why the pod could not be applied while it is not on this host; nil
	// otherwise.
	unstarted *store.Unstarted
	ended     store.Generation // under which the pod was found to have ended

	reported string // the last error; used by the pod's goroutine alone
}

func newPod(s *Supervisor, id identity.Pod) *pod {
	return &pod{s: s, id: id, changed: make(chan struct{}, 1), owner: make(chan struct{}, 1), failures: map[Verb]failure{}}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is signaled
	}
}

func (p *pod) check()        { signal(p.changed) }
func (p *pod) ownerChanged() { signal(p.owner) }

// reload ends the step, to begin it again with other settings.
func (p *pod) reload() {
	p.mu.Lock()
	p.reloaded = true
	p.mu.Unlock()
	signal(p.changed)
}

// state is the pod's state in a summary.
func (p *pod) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.step.Why {
	case "has ended":
		return stateEnded
	case "was stopped":
		return stateStopped
	case "could not be applied", "could not be removed", "could not be supervised", "its checkpoint is corrupt":
		return stateFailed
	}
	switch p.step.Do {
	case Attend, Apply:
		return stateSupervised
	case "":
		return stateStarting
	}
	return stateWaiting
}

// run does one step after the other.
func (p *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		in, err := p.situation(time.Now())
		if err == nil && (in.Exists || in.Source != Present) {
			p.noteUnstarted(in, nil)
		}
		if err != nil {
			in = facing{Situation: Situation{Exists: true, Source: NoSource, RetryAttend: p.fail(Attend, "", err), Now: time.Now()}}
		}
		step := Decide(in.Situation)
		if step.Do == Forget {
			p.report(store.RemoveSource(p.node().Layout(), p.id))
			if p.s.forget(p) {
				return
			}
			p.drain()
			continue
		}
		p.do(ctx, step, in)
	}
}

func (p *pod) node() *node.Node { return p.s.current() }

// drain forgets signals: everything is read again.
func (p *pod) drain() {
	for _, c := range []chan struct{}{p.changed, p.owner} {
		select {
		case <-c:
		default:
		}
	}
}

// do does a step until it is over or the pod's situation asks for another one.
func (p *pod) do(ctx context.Context, step Step, in facing) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	p.step, p.reloaded = step, false
	p.mu.Unlock()
	if step.Do == Wait {
		p.waitsForOwner.Store(in.Owned)
		p.wait(inner, step)
		p.waitsForOwner.Store(false)
		return
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for p.awaitChange(inner, step) == nil {
			if p.outdated(step, in) {
				cancel(errChanged)
			}
		}
	})
	var err error
	switch step.Do {
	case Apply:
		err = p.apply(inner, step, in)
	case Attend:
		err = p.attend(inner, in)
	case Delete:
		err = p.delete(inner, in)
	}
	cancel(nil)
	watch.Wait()
	p.progress.Wait()
	if ctx.Err() == nil {
		p.conclude(step, in, err)
	}
}

// wait waits for anything that may ask for another step.
func (p *pod) wait(ctx context.Context, step Step) {
	var until <-chan time.Time
	if !step.Until.IsZero() {
		timer := time.NewTimer(time.Until(step.Until))
		defer timer.Stop()
		until = timer.C
	}
	select {
	case <-ctx.Done():
	case <-p.changed:
	case <-p.owner:
	case <-until:
	}
}

// awaitChange waits for anything but what the worker of a step sees itself.
func (p *pod) awaitChange(ctx context.Context, step Step) error {
	var until <-chan time.Time
	if !step.Until.IsZero() {
		timer := time.NewTimer(max(time.Until(step.Until), time.Second))
		defer timer.Stop()
		until = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.changed:
	case <-until:
	}
	return nil
}

// outdated tells whether the pod's situation asks for another step than the one
// that is being done.
func (p *pod) outdated(step Step, begun facing) bool {
	p.mu.Lock()
	reloaded := p.reloaded
	p.mu.Unlock()
	in, err := p.situation(time.Now())
	if err != nil {
		return false // the step goes on with what it knows
	}
	in.Owned = false // by this very step
	switch next := Decide(in.Situation); step.Do {
	case Apply:
		// The step is also the supervision of what it has applied.
		return reloaded || next.Do == Delete || in.Source == Present && in.Hash != begun.Hash
	case Attend:
		return reloaded || next.Do != Attend && next.Do != Wait
	}
	return false
}

// conclude takes in how a step has ended.
func (p *pod) conclude(step Step, in facing, err error) {
	if errors.Is(err, errChanged) || errors.Is(err, reconcile.ErrOwned) {
		return
	}
	if err == nil {
		p.succeed()
		p.reported = ""
		if step.Do == Delete {
			p.s.resourcesFreed()
		}
		return
	}
	now, e := p.situation(time.Now())
	if step.Do != Delete && e == nil && (now.Stopped || !now.Exists && in.Exists || now.Doomed) {
		return // a command has stopped or removed it: the next step is about that
	}
	p.fail(step.Do, in.Hash, err)
	if !in.Exists && step.Do == Apply {
		p.noteUnstarted(in, err)
	}
}

// apply brings the pod to what its source asks for, and supervises it from then on.
func (p *pod) apply(ctx context.Context, step Step, in facing) error {
	n := p.node()
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	o := reconcile.ApplyOptions{AllowKubelet: p.s.options.AllowKubelet, KeepOnFailure: true, Force: step.Force,
		Origin: store.Origin{Command: store.OriginServe}, Supervision: p.supervision(),
		Admitted: func() error {
			return store.WriteSource(n.Layout(), p.id, store.SourceRecord{Path: in.path, Hash: in.Hash})
		}}
	w, target, err := p.admit(ctx, n, in.objects, o)
	if err != nil {
		return err
	}
	defer w.Release()
	p.succeed()
	result := w.Apply(ctx, target, o)
	if result.Err == nil {
		p.noteEnded(n)
	}
	return result.Err
}

// awaitRuntime waits for a runtime that is known not to answer.
func (p *pod) awaitRuntime(ctx context.Context) error {
	if p.s.hub.Down().IsZero() {
		return nil
	}
	return p.s.hub.AwaitRuntime(ctx)
}

// admit locks the pod and admits it.
func (p *pod) admit(ctx context.Context, n *node.Node, objects *manifest.Objects, o reconcile.ApplyOptions) (*reconcile.Worker, prepare.Target, error) {
	lock, err := n.Locks().LockPod(ctx, p.id, store.PurposeRun)
	if err != nil {
		lock.Release()
		return nil, prepare.Target{}, err
	}
	locks := store.PodLocks{p.id.String(): lock}
	targets, err := n.Admit(ctx, objects, locks, o.Admit())
	if err != nil {
		lock.Release()
		return nil, prepare.Target{}, err
	}
	return reconcile.NewWorkers(n, targets, objects, locks)[0], targets[0], nil
}

// attend supervises the pod as it is.
func (p *pod) attend(ctx context.Context, in facing) error {
	n := p.node()
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	lock, err := n.Locks().LockPod(ctx, in.id, store.PurposeRun)
	defer lock.Release()
	if err != nil {
		return err
	}
	w, err := reconcile.Resume(ctx, n, in.id, lock)
	if err != nil {
		return err
	}
	ended, err := w.Supervise(ctx, *p.supervision())
	if err == nil && ended {
		p.noteEnded(n)
	}
	return errors.Join(err, w.Close())
}

func (p *pod) supervision() *reconcile.Supervision {
	s := &reconcile.Supervision{Hub: p.s.hub, OwnerChanged: p.owner, OwnerPoll: ownerPoll, Progress: &p.progress}
	if p.s.options.StateChanges == nil {
		s.OwnerPoll = pollEvery
	}
	return s
}

// ownerPoll is how often a worker checks who owns its pod although it is told when
// that changes.
const ownerPoll = 10 * time.Second

// noteEnded remembers under which generation the pod has ended: a command that
// starts it again makes another one.
func (p *pod) noteEnded(n *node.Node) {
	if r, err := store.ReadOwner(n.Layout(), p.id); err == nil && r != nil {
		p.mu.Lock()
		p.ended = r.Generation
		p.mu.Unlock()
	}
	p.s.resourcesFreed()
}

// delete removes the pod, and then what is known of its source.
func (p *pod) delete(ctx context.Context, in facing) error {
	n := p.node()
	if !p.s.hub.Down().IsZero() {
		if err := p.s.hub.AwaitRuntime(ctx); err != nil {
			return err
		}
		return errChanged // the source may have come back meanwhile
	}
	f, err := n.HostFacts(ctx)
	if err != nil {
		return err
	}
	lock, err := n.Locks().LockPod(ctx, in.id, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return err
	}
	if removed := reconcile.Remove(ctx, n, observe.ReadKnown(n.Layout(), in.id), f, lock, reconcile.RemoveOptions{}); removed.Err != nil {
		return removed.Err
	}
	if in.Source == Gone {
		return store.RemoveSource(n.Layout(), p.id)
	}
	return nil
}

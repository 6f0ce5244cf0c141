package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/run/node"
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
	eviction  *eviction        // that was asked for; nil for none

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
	case "was evicted":
		return stateEvicted
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
	case Evict:
		err = p.evict(inner, in)
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
		return reloaded || next.Do == Delete || next.Do == Forget || next.Do == Evict || in.Source == Present && in.Hash != begun.Hash
	case Attend:
		return reloaded || next.Do != Attend && next.Do != Wait
	}
	return false
}

package supervisor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// pod supervises one pod, in one goroutine.
type pod struct {
	s  *Supervisor
	id identity.Pod // without the UID, which may change
	// changed has a signal if the source or the settings may have changed; owner has a signal if
	// the pod's state on disk may have changed.
	changed, owner chan struct{}
	progress       lease.Progress
	waitsForOwner  atomic.Bool
	rewrite        atomic.Bool // the pod's worker must rewrite the pod's checkpoint

	mu       sync.Mutex // guards all fields below
	step     Step       // the current step
	reloaded bool       // the settings have changed since the step began

	failures map[Verb]failure // the last failure of each step; empty after a success
	// unstarted is why the pod could not be applied while it is not on this host; nil
	// otherwise.
	unstarted *store.Unstarted
	corrupt   *Corrupt         // why the checkpoint cannot be read; nil if it can
	ended     store.Generation // the generation in which the pod was observed to have terminated
	eviction  *eviction        // the requested eviction; nil for none

	reported string // the last error; used only by the pod's goroutine
}

func newPod(s *Supervisor, id identity.Pod) *pod {
	return &pod{s: s, id: id, changed: make(chan struct{}, 1), owner: make(chan struct{}, 1), failures: map[Verb]failure{}}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is already pending
	}
}

func (p *pod) check()        { signal(p.changed) }
func (p *pod) ownerChanged() { signal(p.owner) }

// reload ends the current step, so that it begins again with the new settings.
func (p *pod) reload() {
	p.mu.Lock()
	p.reloaded = true
	p.mu.Unlock()
	signal(p.changed)
}

// state returns the pod's state for a summary.
func (p *pod) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.step.Why {
	case whyEnded:
		return stateEnded
	case whyStopped, whyShutDown:
		return stateStopped
	case whyEvicted:
		return stateEvicted
	case whyNotApplied, whyNotRemoved, whyNotSupervised, whyCorrupt:
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

// run executes steps until ctx ends or the pod is forgotten.
func (p *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		in, err := p.situation(time.Now())
		if err == nil && (in.Exists || in.Source != Present) {
			p.noteUnstarted(in, nil)
		}
		if err != nil {
			in = stepInput{Situation: Situation{Exists: true, Source: NoSource, RetryAttend: p.fail(Attend, "", err), Now: time.Now()}}
		}
		p.updateRecord(in)
		p.noteCorrupt(in)
		step := Decide(in.Situation)
		if step.Do == Release {
			p.release(in)
			in.Source = NoSource // even if removing the record fails now
			step = Decide(in.Situation)
		}
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

// updateRecord records the new path of a source file that was renamed: from then on, the file at that
// path determines whether the pod is deleted. It also adds the hashes of the documents to the record of an
// older version of podrun.
func (p *pod) updateRecord(in stepInput) {
	if in.Source != Present || in.recorded == "" {
		return
	}
	record := store.SourceRecord{Path: in.path, Hash: in.Applied, Documents: in.documents}
	if in.documents == nil && in.Hash == in.Applied {
		record.Documents = documents(in.objects)
	}
	if in.recorded != in.path || in.documents == nil && record.Documents != nil {
		p.report(store.WriteSource(p.node().Layout(), p.id, record))
	}
}

// release dissociates a pod from a source that no longer defines it, and reports that the pod is
// kept, because the user may expect it to be deleted.
func (p *pod) release(in stepInput) {
	if err := store.RemoveSource(p.node().Layout(), p.id); err != nil {
		p.report(err)
		return
	}
	p.node().SendWarnings(problem.List{{Object: "pod " + p.id.String(), Warning: true,
		Message: "podrun keeps the pod although " + source.Shown(in.path) + " no longer defines it, because a command has applied it since; run 'podrun delete " + p.id.Name + " -n " + p.id.Namespace + "' to delete it"}})
}

// drain discards pending signals, because the pod's situation is about to be read again.
func (p *pod) drain() {
	for _, c := range []chan struct{}{p.changed, p.owner} {
		select {
		case <-c:
		default:
		}
	}
}

// do executes a step until it ends or the pod's situation requires another one.
func (p *pod) do(ctx context.Context, step Step, in stepInput) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	p.step, p.reloaded = step, false
	p.mu.Unlock()
	if step.Do == Wait {
		p.waitsForOwner.Store(in.Owned)
		_ = p.await(inner, p.owner, step.Until) // the next step is determined again afterwards
		p.waitsForOwner.Store(false)
		return
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for p.await(inner, nil, step.checkAt()) == nil { // the worker itself observes changes of the owner
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

// await waits for an event that may require another step: a signal on changed or owner, or
// the time until, if not zero. The error is that of ctx.
func (p *pod) await(ctx context.Context, owner <-chan struct{}, until time.Time) error {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.changed:
	case <-owner:
	case <-due:
	}
	return nil
}

// checkAt returns when the pod's situation is next compared with the current step: at most
// once a second.
func (s Step) checkAt() time.Time {
	if soon := time.Now().Add(time.Second); !s.Until.IsZero() && s.Until.Before(soon) {
		return soon
	}
	return s.Until
}

// outdated reports whether the pod's situation requires another step than the current one.
func (p *pod) outdated(step Step, begun stepInput) bool {
	p.mu.Lock()
	reloaded := p.reloaded
	p.mu.Unlock()
	in, err := p.situation(time.Now())
	if err != nil {
		return false // if the situation cannot be read, the step continues
	}
	in.Owned = false // the owner is this step
	if step.Do == Apply {
		// Apply removes a pod that it replaces. If a command removes the pod, the worker observes the new owner.
		in.Doomed = false
	}
	if in.Broken && (step.Do == Apply || step.Do == Attend) {
		in.Broken, in.Unclaimed = false, false // the worker knows the definition
		p.rewrite.Store(true)
		p.ownerChanged()
	}
	reloaded = reloaded || in.Source == Present && in.path != begun.path
	switch next := Decide(in.Situation); step.Do {
	case Apply:
		// After applying the pod, this step also supervises it.
		return reloaded || next.Do == Delete || next.Do == Release || next.Do == Forget || next.Do == Evict || in.Source == Present && in.Hash != begun.Hash
	case Attend:
		return reloaded || next.Do != Attend && next.Do != Wait || !p.resizePending(in).Is(p.resizePending(begun))
	}
	return false
}

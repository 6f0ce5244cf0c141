package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// pod supervises one pod, in one goroutine.
type pod struct {
	s  *Supervisor
	id identity.Pod // identity without the UID, which may change
	// changed receives a signal when the source or the settings may have changed. owner receives a
	// signal when the pod's state on disk may have changed.
	changed, owner wait.Signal
	progress       lease.Progress
	waitsForOwner  atomic.Bool
	rewrite        atomic.Bool // true if the pod's worker must rewrite the pod's checkpoint
	failures       failures
	eviction       evictionRequest

	mu   sync.Mutex // guards all fields below
	step Step       // the current step
	// true if the settings have changed since the current step began
	reloaded bool
	// pending is the source's definition if podrun could not apply it; otherwise it is nil.
	pending *pending
	// earlier is the definition that podrun could not apply at the last attempt, which may be one of the previous supervisor;
	// it has no Hash if podrun applied the definition, or if the source has another one now.
	earlier store.Pending
	// why podrun cannot read the checkpoint; nil if podrun can read it
	corrupt *Corrupt
	// the generation in which podrun observed that the pod had terminated
	ended store.Generation

	// These are used only by the pod's goroutine: the last error, and the files that also define the pod and for which
	// podrun has emitted an event.
	reported, ignored string
}

func newPod(s *Supervisor, id identity.Pod) *pod {
	changed := wait.NewSignal()
	return &pod{
		s:        s,
		id:       id,
		changed:  changed,
		owner:    wait.NewSignal(),
		eviction: evictionRequest{changed: changed},
		earlier:  s.earlier[id],
	}
}

func (p *pod) check()        { p.changed.Send() }
func (p *pod) ownerChanged() { p.owner.Send() }

// reload ends the current step, so that podrun repeats the step with the new settings.
func (p *pod) reload() {
	p.mu.Lock()
	p.reloaded = true
	p.mu.Unlock()
	p.changed.Send()
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
	case Attend, Apply, RollBack:
		return stateSupervised
	case "":
		return stateStarting
	}
	return stateWaiting
}

// run executes steps until ctx ends or the supervisor forgets the pod.
func (p *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		in, err := p.situation(time.Now())
		if err == nil {
			p.endPending(in)
			p.noteRejected(in)
		} else {
			in = stepInput{Situation: Situation{
				Checkpoint:  CheckpointIntact,
				Source:      NoSource,
				RetryAttend: p.failures.add(Attend, "", err),
				Now:         time.Now(),
			}}
			p.report(err)
		}
		p.updateRecord(in)
		p.noteCorrupt(in)
		p.noteIgnored(in)
		step := Decide(in.Situation)
		if step.Do == Apply && !p.mayUpdate(in) {
			in.Behind = true
			step = Decide(in.Situation)
		}
		if step.Do == Release {
			p.release(in)
			// The pod no longer has a source, even if the removal of the record fails.
			in.Source = NoSource
			step = Decide(in.Situation)
		}
		if step.Do == Forget {
			p.report(store.RemoveSource(p.node().Layout(), p.id))
			if p.s.options.Forgotten != nil {
				p.s.options.Forgotten()
			}
			if p.s.forget(p) {
				p.concluded(in, nil)
				return
			}
			p.drain()
			continue
		}
		p.do(ctx, step, in)
	}
}

func (p *pod) node() *node.Node { return p.s.current() }

// updateRecord records the new path of a source file that was renamed. From then on, the file at the new
// path determines whether podrun deletes the pod. If an older version of podrun wrote the record,
// updateRecord also adds the hashes of the documents.
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

// release separates a pod from a source that no longer defines it. It reports that podrun keeps the
// pod, because the user may expect podrun to delete the pod.
func (p *pod) release(in stepInput) {
	if err := store.RemoveSource(p.node().Layout(), p.id); err != nil {
		p.report(err)
		return
	}
	p.node().SendWarnings(problem.List{{Object: "pod " + p.id.String(), Warning: true,
		Message: "podrun keeps the pod although " + source.Shown(in.path) + " no longer defines it, because a command has applied it since; run 'podrun delete " + p.id.Name + " -n " + p.id.Namespace + "' to delete it"}})
}

// drain discards pending signals, because run is about to read the pod's situation again.
func (p *pod) drain() {
	for _, c := range []wait.Signal{p.changed, p.owner} {
		select {
		case <-c:
		default:
		}
	}
}

// do executes a step until the step ends or the pod's situation requires another one.
func (p *pod) do(ctx context.Context, step Step, in stepInput) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if step.Do == Delete {
		in.grace = p.grace(in.id)
	}
	p.mu.Lock()
	p.step = step
	p.reloaded = false
	p.mu.Unlock()
	if step.Do == Wait {
		p.waitsForOwner.Store(in.Owned)
		// The loop then makes a new decision.
		_ = p.await(inner, p.owner, step.Until)
		p.waitsForOwner.Store(false)
		return
	}
	p.failures.unblock()
	var checks sync.WaitGroup
	checks.Go(func() {
		// The worker itself observes changes of the owner.
		for p.await(inner, nil, step.checkAt()) == nil {
			if p.outdated(step, in) {
				cancel(errChanged)
			}
		}
	})
	var err error
	switch step.Do {
	case Apply:
		err = applyStep{p, step, in}.run(inner)
	case RollBack:
		err = (&rollBackStep{pod: p, in: in}).run(inner)
	case Attend:
		err = p.attend(inner, in)
	case Delete:
		err = p.delete(inner, in)
	case Evict:
		err = p.evict(inner, in)
	}
	cancel(nil)
	checks.Wait()
	p.progress.Wait()
	if ctx.Err() == nil {
		p.conclude(step, in, err)
		if !errors.Is(err, errChanged) {
			p.concluded(in, err)
		}
	}
}

// await waits for an event that may require another step: a signal on changed or owner, or the time
// until if it is not zero. It returns the error of ctx.
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

// checkAt returns the time at which the pod's worker next compares the situation with the current step. The worker
// does this at most once a second.
func (s Step) checkAt() time.Time {
	if soon := time.Now().Add(time.Second); !s.Until.IsZero() && s.Until.Before(soon) {
		return soon
	}
	return s.Until
}

// outdated reports whether the pod's situation requires a step other than the current one.
func (p *pod) outdated(step Step, begun stepInput) bool {
	if step.Do == Delete {
		return p.hurried(begun)
	}
	p.mu.Lock()
	reloaded := p.reloaded
	p.mu.Unlock()
	in, err := p.situation(time.Now())
	if err != nil {
		// If the situation cannot be read, the step continues.
		return false
	}
	// The owner is the current step itself.
	in.Owned = false
	if step.Do == Apply || step.Do == RollBack {
		// Apply removes a pod that it replaces, so Doomed does not require another step. If a command removes
		// the pod, the worker detects the new owner.
		in.Doomed = false
	}
	if in.Checkpoint == CheckpointCorrupt && (step.Do == Apply || step.Do == RollBack || step.Do == Attend) {
		// The worker already has the definition.
		in.Checkpoint = CheckpointIntact
		if in.Origin == OriginUnclaimed {
			in.Origin = OriginCommand
		}
		p.rewrite.Store(true)
		p.ownerChanged()
	}
	before := p.resizePending(begun)
	p.endPending(in)
	p.noteRejected(in)
	in.Behind = step.Do == Attend && begun.Behind && !p.mayUpdate(in)
	reloaded = reloaded || in.Source == Present && in.path != begun.path || in.ignored.String() != begun.ignored.String()
	switch next := Decide(in.Situation); step.Do {
	case Apply, RollBack:
		// After applying the pod, this step also supervises it.
		return reloaded || step.Do == Apply && next.Do == RollBack || slices.Contains([]Verb{Delete, Release, Forget, Evict}, next.Do) ||
			in.Source == Present && in.Hash != begun.Hash
	case Attend:
		return reloaded || next.Do != Attend && next.Do != Wait || !p.resizePending(in).Is(before)
	}
	return false
}

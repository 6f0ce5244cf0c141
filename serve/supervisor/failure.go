package supervisor

import (
	"errors"
	"reflect"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// failure is the failure of a step; the zero value means no failure.
type failure struct {
	hash    string // for Apply: see Situation.Failed
	retry   time.Time
	delay   time.Duration
	refused bool // this host cannot run the pod at the moment
	message string
}

// The delays before podrun retries a failed step.
const (
	firstDelay = time.Second
	lastDelay  = 10 * time.Second
	// lastRefusal is the delay for a pod that this host cannot run. podrun must retry without a
	// signal, because the facts about the host may change without one.
	lastRefusal = time.Minute
)

// fail records the failure of a step. It returns the time of the next attempt.
func (p *pod) fail(step Verb, hash string, err error) (retry time.Time) {
	p.mu.Lock()
	f := p.failures[step]
	last := lastDelay
	e, known := errors.AsType[*problem.Error](err)
	if f.refused = known && (e.Kind == problem.Refused || e.Kind == problem.Manifest); f.refused {
		last = lastRefusal
	}
	if step == Apply && f.hash != hash || time.Since(f.retry) > last {
		// The previous failure had another cause or happened long ago.
		f.delay = 0
	}
	f.delay = wait.Next(f.delay, firstDelay, last)
	f.hash = hash
	f.retry = time.Now().Add(f.delay)
	f.message = event.Cut(err.Error())
	if pull, ok := errors.AsType[*imagepull.PullError](err); ok && pull.Next.After(f.retry) {
		f.retry = pull.Next
	}
	p.failures[step] = f
	if p.blocked = ""; statefile.LacksResources(err) || statefile.IsUnreadable(err) {
		p.blocked = f.message
	}
	p.mu.Unlock()
	return f.retry
}

// succeed removes all failures.
func (p *pod) succeed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.failures)
}

// report prints an error, unless it is the same as the previous one.
func (p *pod) report(err error) {
	if err == nil || observe.IsUnavailable(err) || err.Error() == p.reported {
		return
	}
	p.reported = err.Error()
	p.node().SendWarnings(problem.List{problem.WarningOf(err)})
}

// freed triggers another attempt to start a pod that this host could not run before.
func (p *pod) freed() {
	p.mu.Lock()
	refused := false
	for step, f := range p.failures {
		if f.refused {
			refused = true
			delete(p.failures, step)
		}
	}
	p.mu.Unlock()
	if refused {
		p.changed.Send()
	}
}

// emit adds a Warning event to the journal of a pod on this host.
func (p *pod) emit(id identity.Pod, reason, message string) {
	p.emitAs(id, event.Warning, reason, message)
}

// emitAs is emit for an event of any type.
func (p *pod) emitAs(id identity.Pod, kind, reason, message string) {
	n := p.node()
	j := store.Journal{Pod: id, Next: n.Emit}
	err := j.Open(n.Layout())
	j.Emit(event.Event{Type: kind, Reason: reason, Message: message})
	p.report(errors.Join(err, j.Close()))
}

// noteIgnored emits an event for the files that also define the pod, but do not have precedence. It emits
// the event again only if these files change.
func (p *pod) noteIgnored(in stepInput) {
	if !in.exists() {
		return
	}
	text := in.ignored.String()
	if text != "" && text != p.ignored {
		p.emit(in.id, event.DefinitionIgnored, text)
	}
	p.ignored = text
}

// noteCorrupt records whether podrun can use the pod's checkpoint. If it cannot, noteCorrupt
// reports this, with the consequence, once.
func (p *pod) noteCorrupt(in stepInput) {
	var c *Corrupt
	if in.Checkpoint == CheckpointCorrupt {
		c = &Corrupt{ID: p.id.String(), Source: in.path, Why: store.BrokenCause(in.broken).Error()}
	}
	p.mu.Lock()
	changed := !reflect.DeepEqual(c, p.corrupt)
	p.corrupt = c
	p.mu.Unlock()
	if c == nil || !changed {
		return
	}
	message := "podrun cannot use the pod's checkpoint and does not supervise the pod: " + c.Why
	if e, ok := errors.AsType[*problem.Error](in.broken); ok && e.Hint != "" {
		message += "; " + e.Hint
	}
	if in.replacesCorrupt() {
		message = "podrun cannot use the pod's checkpoint: " + c.Why + "; podrun replaces the pod with the one that " + source.Shown(in.path) + " defines"
	}
	p.emit(in.id, event.CheckpointCorrupt, message)
}

// conclude processes the result of a step.
func (p *pod) conclude(step Step, in stepInput, err error) {
	if errors.Is(err, reconcile.ErrRollBack) {
		p.spreadRejection(in)
		return
	}
	if err != nil && step.Do == Apply {
		p.s.rolls.end(in.workload, p.id)
		p.s.checkReplicas(p.id, in.workload)
	}
	if errors.Is(err, errChanged) || errors.Is(err, reconcile.ErrOwned) || lease.IsDeleted(err) || err != nil && step.Do == Evict {
		// The caller of askEviction reports the failure.
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
	if step.Do != Delete && e == nil && (now.Halt == HaltStopped || !now.exists() && in.exists() || now.Doomed) {
		// A command has stopped or removed the pod, which the next step handles.
		return
	}
	retry := p.fail(step.Do, in.Hash, err)
	if step.Do != Apply || e != nil || now.Hash != in.Hash || !now.pends() || !p.notePending(now, err, retry) {
		p.report(err)
	}
}

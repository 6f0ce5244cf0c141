package supervisor

import (
	"errors"
	"maps"
	"reflect"
	"sync"
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

// failures are the last failures of a pod's steps. They are safe for concurrent use.
type failures struct {
	mu sync.Mutex       // guards all fields below
	of map[Verb]failure // has no entry for a step that succeeded
	// the error of the last step, if it is one of Summary.Blocked; "" otherwise
	blocked string
}

// add records the failure of a step. It returns the time of the next attempt.
func (l *failures) add(step Verb, hash string, err error) (retry time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of[step]
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
	put(&l.of, step, f)
	if l.blocked = ""; statefile.LacksResources(err) || statefile.IsUnreadable(err) {
		l.blocked = f.message
	}
	return f.retry
}

// last returns the last failure of a step.
func (l *failures) last(step Verb) failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[step]
}

// addTo adds the failures to the inputs of Decide.
func (l *failures) addTo(s *Situation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Failed = l.of[Apply].hash
	s.RetryApply = l.of[Apply].retry
	s.RetryAttend = l.of[Attend].retry
	s.RetryDelete = l.of[Delete].retry
	s.RetryRollBack = l.of[RollBack].retry
}

// blockedBy returns the error of the last step, if it is one of Summary.Blocked; "" otherwise.
func (l *failures) blockedBy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked
}

// unblock records that a step has begun, whose error is unknown.
func (l *failures) unblock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = ""
}

// clear removes all failures.
func (l *failures) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.of)
}

// clearRefused removes the failures of steps that this host could not run. It reports whether there were any.
func (l *failures) clearRefused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.of)
	maps.DeleteFunc(l.of, func(_ Verb, f failure) bool { return f.refused })
	return len(l.of) < before
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
	if p.failures.clearRefused() {
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
		// The caller of evictionRequest.ask reports the failure.
		return
	}
	if err == nil {
		p.failures.clear()
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
	retry := p.failures.add(step.Do, in.Hash, err)
	if step.Do != Apply || e != nil || now.Hash != in.Hash || !now.pends() || !p.notePending(now, err, retry) {
		p.report(err)
	}
}

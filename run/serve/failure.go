package serve

import (
	"errors"
	"reflect"
	"time"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// failure is the last step that failed; the zero value is none.
type failure struct {
	hash    string // see Situation.Failed
	retry   time.Time
	delay   time.Duration
	refused bool // this host can't run the pod as it is now
}

// conclude takes in how a step has ended.
func (p *pod) conclude(step Step, in facing, err error) {
	if errors.Is(err, errChanged) || errors.Is(err, reconcile.ErrOwned) {
		return
	}
	if err == nil {
		p.setFailure(failure{})
		p.reported = ""
		if step.Do == Delete {
			p.s.resourcesFreed()
		}
		return
	}
	if now, e := p.situation(time.Now()); e == nil && (now.Stopped || !now.Exists && in.Exists || now.Doomed) {
		return // a command has stopped or removed it: the next step is about that
	}
	hash := ""
	if step.Do == Apply {
		hash = in.Hash
	}
	p.fail(hash, err)
	if !in.Exists && step.Do == Apply {
		p.noteUnstarted(in, err)
	}
}

// How long a step that failed is not tried again.
const (
	firstDelay = time.Second
	lastDelay  = 10 * time.Second
	// lastRefusal is for a pod that this host can't run: the facts may change
	// without a signal.
	lastRefusal = time.Minute
)

// fail notes a failure, and reports it once.
func (p *pod) fail(hash string, err error) {
	f := p.lastFailure()
	if f.hash != hash {
		f.delay = 0
	}
	last := lastDelay
	e, known := errors.AsType[*problem.Error](err)
	if f.refused = known && (e.Kind == problem.Refused || e.Kind == problem.Manifest); f.refused {
		last = lastRefusal
	}
	f.delay = min(max(2*f.delay, firstDelay), last)
	f.hash, f.retry = hash, time.Now().Add(f.delay)
	p.setFailure(f)
	p.report(err)
}

// noteUnstarted notes why a pod that is not on this host could not be applied, or with
// nil that it is on this host or not asked for.
func (p *pod) noteUnstarted(in facing, err error) {
	var u *store.Unstarted
	if err != nil {
		u = &store.Unstarted{Namespace: p.id.Namespace, Name: p.id.Name, Source: in.path, Reason: "Failed", Message: event.Cut(err.Error())}
		if e, ok := errors.AsType[*problem.Error](err); ok {
			u.Reason = reasonOf(e)
		}
		for _, c := range in.objects.Pods[0].Object.Spec.Containers {
			u.Containers = append(u.Containers, c.Name)
		}
	}
	p.mu.Lock()
	changed := !reflect.DeepEqual(u, p.unstarted)
	p.unstarted = u
	p.mu.Unlock()
	if changed {
		signal(p.s.published)
	}
}

// reasonOf is the reason of the first problem that refuses, as the kubelet's status of
// a rejected pod has it.
func reasonOf(e *problem.Error) string {
	for _, one := range e.Problems {
		if !one.Warning && one.Reason != "" {
			return one.Reason
		}
	}
	return "Failed"
}

func (p *pod) lastFailure() failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

func (p *pod) setFailure(f failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = f
}

// report gives out an error once, until another one comes.
func (p *pod) report(err error) {
	if err == nil || observe.IsUnavailable(err) || err.Error() == p.reported {
		return
	}
	p.reported = err.Error()
	p.node().SendWarnings(problem.List{problem.WarningOf(err)})
}

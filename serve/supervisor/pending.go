package supervisor

import (
	"errors"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// pending is a definition that podrun could not apply.
type pending struct {
	store.Pending      // Hash is that of Situation
	refused       bool // this host cannot run the pod at the moment
}

// pends reports whether the source's definition is not in effect although the pod's state does not
// prevent podrun from applying it.
func (s Situation) pends() bool {
	s.Owned = false
	s.RetryApply = time.Time{}
	s.RetryAttend = time.Time{}
	return Decide(s).Do == Apply
}

// notePending records why podrun could not apply the source's definition. If the pod is on this host,
// notePending also emits an event for each new cause, and returns true: podrun logs the event.
func (p *pod) notePending(in stepInput, err error, retry time.Time) (emits bool) {
	now := &pending{
		Pending: store.Pending{
			Hash:      in.Hash,
			Namespace: p.id.Namespace,
			Name:      p.id.Name,
			Source:    source.Shown(in.path),
			Reason:    reasonOf(err),
			Message:   event.Cut(err.Error()),
			Since:     time.Now(),
			Next:      retry,
		},
		refused: p.failures.last(Apply).refused,
	}
	for _, c := range in.containers() {
		now.Containers = append(now.Containers, c.Name)
	}
	p.mu.Lock()
	before := p.pending
	if p.earlier.Hash == now.Hash {
		now.Since = p.earlier.Since
	}
	p.earlier = now.Pending
	p.pending = now
	p.mu.Unlock()
	p.s.published.Send()
	if !in.exists() || observe.IsUnavailable(err) {
		return false
	}
	if before == nil || before.Hash != now.Hash || before.Message != now.Message {
		p.emit(in.id, event.UpdatePending, now.Cause())
	}
	return true
}

// endPending removes the pending definition if the source has another definition now, or if podrun has
// applied it.
func (p *pod) endPending(in stepInput) {
	p.mu.Lock()
	if in.Hash != p.earlier.Hash || !in.pends() {
		p.earlier = store.Pending{}
	}
	ends := p.pending != nil && (in.Hash != p.pending.Hash || !in.pends() && !in.Rejected)
	if ends {
		p.pending = nil
	}
	p.mu.Unlock()
	if ends {
		p.s.published.Send()
	}
}

// reasonOf returns the reason of an error in one word: that of the first problem, as the kubelet shows it
// in the status of a rejected pod, or that of a failed pull.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		for _, one := range e.Problems {
			if !one.Warning && one.Reason != "" {
				return one.Reason
			}
		}
	}
	if pull, ok := errors.AsType[*imagepull.PullError](err); ok {
		return pull.Reason
	}
	return "Failed"
}

package probe

import (
	"context"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// work repeatedly runs one probe of one container until no further result is needed or ctx ends.
// For all kinds except startup probes, it first waits until the container has started.
func (p *Prober) work(ctx context.Context, w *watched, plan Plan) {
	if plan.Kind != Startup {
		select {
		case <-w.started:
		case <-ctx.Done():
			return
		}
	}
	state := w.initial(plan)
	for {
		due, ok := p.due(w, plan, state)
		if !ok || !sleepUntil(ctx, due) {
			return
		}
		if state, ok = p.probe(ctx, w, plan, state); !ok {
			return
		}
	}
}

// sleepUntil waits until t. It returns false if ctx ends first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// probe runs one probe, reports it and adds its result. It returns false if ctx has ended or the
// caller no longer owns the pod, because the result is meaningless in these cases.
func (p *Prober) probe(ctx context.Context, w *watched, plan Plan, s State) (State, bool) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return s, false
	}
	if p.options.Owned != nil && !p.options.Owned() {
		<-p.slots
		return s, false
	}
	began := time.Now()
	result, err := Run(ctx, plan, Target{ContainerID: w.ID, PodIP: w.PodIP, Exec: p.options.Exec})
	<-p.slots
	if ctx.Err() != nil || p.options.Owned != nil && !p.options.Owned() {
		return s, false
	}
	// The event must precede the effect of the result, such as the kill of the container.
	p.emit(w, plan, result, err)
	outcome := result.Outcome
	if err != nil {
		outcome = Unknown
	}
	s, change := s.Next(plan, outcome, began)
	if !p.keep(ctx, w, plan.Kind, s) {
		return s, false
	}
	if p.options.Probed != nil {
		p.options.Probed(plan, outcome)
	}
	p.report(w, plan, change, result)
	return s, true
}

// keep records a state and returns true. If ctx has ended, it does nothing and returns false.
func (p *Prober) keep(ctx context.Context, w *watched, kind Kind, s State) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	w.set(kind, s)
	return true
}

func (p *Prober) emit(w *watched, plan Plan, r Result, err error) {
	reason, message := plan.eventOf(r, err)
	if reason == "" || p.options.Emit == nil {
		return
	}
	list := "containers"
	if w.Init {
		list = "initContainers"
	}
	p.options.Emit(event.Event{
		Time: time.Now(), Type: event.Warning, Reason: reason, Message: message,
		Namespace: plan.ID.Namespace, Pod: plan.ID.Name, UID: plan.ID.UID,
		FieldPath: "spec." + list + "{" + plan.Container + "}",
	})
}

func (p *Prober) report(w *watched, plan Plan, c Change, r Result) {
	if c == Unchanged || p.options.Report == nil {
		return
	}
	message := r.Output
	switch {
	case c == Passed:
		message = ""
	case plan.Kind != Readiness:
		message = plan.killMessage(w.Init)
	}
	p.options.Report(w.ID, plan.Kind, c == Passed, message)
}

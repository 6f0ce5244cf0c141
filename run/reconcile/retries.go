package reconcile

import (
	"time"

	"github.com/podrun/podrun/run/lifecycle"
)

// The delay before a failed step is retried: 1 s at first, doubling up to 10 s, which is
// the kubelet's delay (backOffPeriod in pkg/kubelet).
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// The steps that are retried, besides the starts of containers, which have their names.
const (
	podStep        = ""            // whatever the pod needs first
	resizeStep     = "/resize"     // no container has such a name
	checkpointStep = "/checkpoint" // a corrupt one is written again
)

// stepOf names the step that an action belongs to.
func stepOf(a lifecycle.Action) string {
	if a.Verb == lifecycle.ResizePod {
		return resizeStep
	}
	return a.Container
}

// retries are the delayed steps of a supervised pod. The zero value delays nothing: the steps
// of a command fail at once.
type retries struct {
	steps   map[string]retry
	decided time.Time // when the actions were decided that may be delayed
}

type retry struct {
	at    time.Time
	delay time.Duration
}

// begin notes that actions were decided now.
func (r *retries) begin() time.Time {
	r.decided = time.Now()
	return r.decided
}

// after notes a failure.
func (r *retries) after(name string, now time.Time) {
	if r.steps == nil {
		return
	}
	delay := min(max(r.steps[name].delay*2, firstRetry), lastRetry)
	r.steps[name] = retry{now.Add(delay), delay}
}

// failed reports whether the last try of a step failed.
func (r *retries) failed(name string) bool {
	_, failed := r.steps[name]
	return failed
}

// forget notes that a step succeeded.
func (r *retries) forget(name string) { delete(r.steps, name) }

// held reports whether a step is still delayed.
func (r *retries) held(name string, now time.Time) bool { return now.Before(r.steps[name].at) }

// delay reports whether an action waits for the next try of its step: a start, or a resize. A
// container that runs although its last start failed is stopped, and has its hook run, at once.
func (r *retries) delay(a lifecycle.Action, now time.Time) bool {
	return (a.Verb == lifecycle.StartContainer || a.Verb == lifecycle.ResizePod) && r.held(stepOf(a), now)
}

// next is when the first step is to be retried that was delayed when the actions were
// decided; zero if there is none. On a busy host that time may have passed: then it is due at
// once.
func (r *retries) next() time.Time {
	var next time.Time
	for _, one := range r.steps {
		if r.decided.Before(one.at) && (next.IsZero() || one.at.Before(next)) {
			next = one.at
		}
	}
	return next
}

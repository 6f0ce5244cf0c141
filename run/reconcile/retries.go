package reconcile

import (
	"time"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
)

// The delays before podrun retries a failed step: first 1 s, then doubling up to the kubelet's delay
// of 10 s (backOffPeriod in pkg/kubelet).
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// The names of the steps that podrun retries. The step that starts a container has the container's
// name.
const (
	podStep        = ""            // any step of the pod itself
	resizeStep     = "/resize"     // not a valid container name
	checkpointStep = "/checkpoint" // writes the checkpoint again if it is corrupt
)

// stepOf returns the name of the step to which an action belongs.
func stepOf(a lifecycle.Action) string {
	if a.Verb == lifecycle.ResizePod {
		return resizeStep
	}
	return a.Container
}

// retries contains the delayed steps of a supervised pod. Commands use the zero value, which delays
// nothing, because a command does not retry a failed step.
type retries struct {
	steps   map[string]retry
	decided time.Time // when the worker last decided which actions to execute
}

type retry struct {
	at    time.Time
	delay time.Duration
}

// begin records the current time as the time of the worker's decision, and returns it.
func (r *retries) begin() time.Time {
	r.decided = time.Now()
	return r.decided
}

// after records that a step has failed, and doubles the delay of its next attempt.
func (r *retries) after(name string, now time.Time) {
	if r.steps == nil {
		return
	}
	delay := wait.Next(r.steps[name].delay, firstRetry, lastRetry)
	r.steps[name] = retry{now.Add(delay), delay}
}

// failed reports whether the last attempt of a step failed.
func (r *retries) failed(name string) bool {
	_, failed := r.steps[name]
	return failed
}

// forget records that a step succeeded.
func (r *retries) forget(name string) { delete(r.steps, name) }

// held reports whether a step must not be retried yet.
func (r *retries) held(name string, now time.Time) bool { return now.Before(r.steps[name].at) }

// delay reports whether a start or a resize must wait for the next attempt of its step. Other actions
// are never delayed. For example, if a container is running although its last start failed, podrun
// stops it or runs its hook immediately.
func (r *retries) delay(a lifecycle.Action, now time.Time) bool {
	return (a.Verb == lifecycle.StartContainer || a.Verb == lifecycle.ResizePod) && r.held(stepOf(a), now)
}

// next returns the earliest time at which podrun may retry one of the steps that the last decision
// delayed. It returns zero if there is none. On a busy host, that time may already have passed.
func (r *retries) next() time.Time {
	var next time.Time
	for _, one := range r.steps {
		if r.decided.Before(one.at) && (next.IsZero() || one.at.Before(next)) {
			next = one.at
		}
	}
	return next
}

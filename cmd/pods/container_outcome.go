package pods

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/junit"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
)

// containerKey is a container of one of the command's pods.
type containerKey struct{ namespace, pod, name string }

// containerEvents records from the events which containers were started and stopped.
type containerEvents struct {
	mu      sync.Mutex
	started map[containerKey]bool
	stopped map[containerKey]time.Time // when podrun began to stop the last run of the container
}

// observe is an event.Sink.
func (s *containerEvents) observe(e event.Event) {
	key := containerKey{e.Namespace, e.Pod, view.ContainerOf(e.FieldPath)}
	if key.name == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started == nil {
		s.started, s.stopped = map[containerKey]bool{}, map[containerKey]time.Time{}
	}
	switch e.Reason {
	case event.StartedContainer:
		s.started[key] = true
		delete(s.stopped, key)
	case event.KillingContainer:
		s.stopped[key] = e.Time
	}
}

// of reports whether a container was started, and whether podrun stopped it. If a container
// exited before podrun began to stop it, podrun did not stop it. exit is the time of the exit, or
// zero if it is unknown.
func (s *containerEvents) of(id identity.Pod, name string, exit time.Time) (started, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := containerKey{id.Namespace, id.Name, name}
	at := s.stopped[key]
	return s.started[key], !at.IsZero() && (exit.IsZero() || !exit.Before(at))
}

// containerOutcome is the outcome of a container of a run, as a test case.
type containerOutcome struct {
	name, field string // field is its path in the pod
	outcome     junit.Outcome
	reason      string
	message     string // one line; empty if it passed
	details     string // of any length
	ended       lifecycle.Ended
}

// endedPod contains the facts about a pod at the end of a run.
type endedPod struct {
	id     identity.Pod
	spec   *corev1.Pod
	ended  []lifecycle.Ended
	code   int   // the exit code for the pod
	err    error // why the pod has no exit code, or nil
	from   string
	events *containerEvents
}

// containers returns the outcomes of the pod's containers in the order of the spec, and whether
// these outcomes explain the error of the pod. If podrun stopped a container because of the error,
// its outcome is that error, not the exit code of the signal. Sidecars pass, and so do containers
// that podrun stopped because --exit-code-from names another container: their exit codes do not
// count.
func (p endedPod) containers() (out []containerOutcome, explained bool) {
	ended := map[string]lifecycle.Ended{}
	for _, e := range p.ended {
		ended[e.Name] = e
	}
	causes := containerErrors(p.err)
	for _, c := range lifecycle.SpecContainers(p.spec) {
		if c.Ephemeral {
			continue
		}
		name := c.Container.Name
		o := containerOutcome{name: name, field: c.Field, outcome: junit.Passed, ended: ended[name]}
		cause := causes[name]
		_, exited := ended[name]
		started, stopped := p.events.of(p.id, name, o.ended.FinishedAt)
		sidecar := c.Container.RestartPolicy != nil && *c.Container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if cause == nil && p.err != nil && !sidecar && (stopped || started && !exited) {
			cause = p.err
		}
		switch {
		case cause != nil:
			explained = true
			o.outcome = junit.Errored
			o.reason = exit.Reason(exit.Code(cause))
			o.message = view.ShownText(cause.Error())
		case !started && !exited:
			o.outcome, o.message = junit.Skipped, "not started"
		case !exited || o.ended.ExitCode == 0 || sidecar || stopped && p.from != "" && name != p.from:
		default:
			o.outcome, o.reason = junit.Failed, cmp.Or(o.ended.Reason, "Error")
			o.message, o.details = fmt.Sprintf("exited with %d (%s)", o.ended.ExitCode, o.reason), view.ShownText(o.ended.Message)
		}
		out = append(out, o)
	}
	return out, explained
}

// containerErrors returns the errors that name a container, by its name.
func containerErrors(err error) map[string]error {
	out := map[string]error{}
	if err == nil {
		return out
	}
	problem.Each(err, func(each error) {
		if name := containerIn(each); name != "" && out[name] == nil {
			out[name] = each
		}
	})
	return out
}

// containerIn returns the name of the container that an error names as its object: "container app"
// or "pod default/web: container app".
func containerIn(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		e, ok := err.(*problem.Error)
		if !ok {
			continue
		}
		if _, name, found := strings.Cut(": "+e.Object, ": container "); found {
			return name
		}
	}
	return ""
}

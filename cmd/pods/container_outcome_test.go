package pods

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
)

// outcomePod has an init container, a sidecar and two app containers.
func outcomePod() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}},
		Containers:     []corev1.Container{{Name: "a"}, {Name: "b"}},
	}}
}

func TestContainerOutcomes(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	started := func(path string) event.Event {
		return event.Event{Reason: event.StartedContainer, Namespace: "ns", Pod: "pod", FieldPath: path}
	}
	killing := func(path string, s int) event.Event {
		return event.Event{Reason: event.KillingContainer, Namespace: "ns", Pod: "pod", FieldPath: path, Time: at(s)}
	}
	const onInit, onSide, onA, onB = "spec.initContainers{init}", "spec.initContainers{side}", "spec.containers{a}", "spec.containers{b}"
	all := []event.Event{started(onInit), started(onSide), started(onA), started(onB)}
	ok := func(name string) lifecycle.Ended { return lifecycle.Ended{Name: name, FinishedAt: at(1)} }
	failed := func(name string, code int32, s int) lifecycle.Ended {
		return lifecycle.Ended{Name: name, ExitCode: code, Reason: "Error", FinishedAt: at(s)}
	}
	timeout := &problem.Error{Kind: problem.Deadline, Object: "pod ns/pod", Err: errors.New("timed out")}
	for name, c := range map[string]struct {
		events    []event.Event
		ended     []lifecycle.Ended
		err       error
		from      string
		want      string // per container: its outcome, type and message
		explained bool
	}{
		"all passed": {events: append(all, killing(onSide, 2)), ended: []lifecycle.Ended{ok("init"), failed("side", 137, 3), ok("a"), ok("b")},
			want: "init passed; side passed; a passed; b passed"},
		"one failed": {events: all, ended: []lifecycle.Ended{ok("init"), ok("side"), ok("a"), {Name: "b", ExitCode: 2}},
			want: "init passed; side passed; a passed; b failed Error exited with 2 (Error)"},
		"init failed": {events: all[:1], ended: []lifecycle.Ended{{Name: "init", ExitCode: 4, Reason: "OOMKilled"}},
			want: "init failed OOMKilled exited with 4 (OOMKilled); side skipped  not started; a skipped  not started; b skipped  not started"},
		"timeout": {events: append(all, killing(onA, 5), killing(onB, 5)), ended: []lifecycle.Ended{ok("init"), failed("a", 137, 6), failed("b", 3, 4)}, err: timeout,
			want: "init passed; side passed; a errored Deadline pod ns/pod: timed out; b failed Error exited with 3 (Error)", explained: true},
		"timeout of a container whose exit is unknown": {events: all, ended: []lifecycle.Ended{ok("init")}, err: timeout,
			want: "init passed; side passed; a errored Deadline pod ns/pod: timed out; b errored Deadline pod ns/pod: timed out", explained: true},
		"signal": {events: all[:1], err: fmt.Errorf("pod ns/pod: %w", exit.SignalError{Signal: syscall.SIGTERM}),
			want: "init errored Signal pod ns/pod: ended by SIGTERM; side skipped  not started; a skipped  not started; b skipped  not started", explained: true},
		"image of one": {events: append(all[:3:3], killing(onA, 5)), ended: []lifecycle.Ended{ok("init"), failed("a", 3, 4)},
			err:  errors.Join(&problem.Error{Kind: problem.Image, Object: "pod ns/pod: container b", Err: errors.New("not found")}),
			want: "init passed; side passed; a failed Error exited with 3 (Error); b errored Image pod ns/pod: container b: not found", explained: true},
		"before the first": {err: &problem.Error{Kind: problem.Runtime, Object: "pod ns/pod", Op: "create sandbox", Err: errors.New("refused")},
			want: "init skipped  not started; side skipped  not started; a skipped  not started; b skipped  not started"},
		"in a wrapped error": {events: all[:2], ended: []lifecycle.Ended{ok("init")}, err: &problem.Error{Kind: problem.NotFound, Object: "pod ns/pod", Err: &problem.Error{Object: "container a", Err: errors.New("exec")}},
			want: "init passed; side passed; a errored CommandNotFound pod ns/pod: container a: exec; b skipped  not started", explained: true},
		"exit code from a": {events: append(all, killing(onB, 5)), ended: []lifecycle.Ended{ok("init"), failed("a", 3, 4), failed("b", 143, 6)}, from: "a",
			want: "init passed; side passed; a failed Error exited with 3 (Error); b passed"},
		"exit code from a, but b failed before": {events: append(all, killing(onB, 5)), ended: []lifecycle.Ended{ok("init"), ok("a"), failed("b", 3, 4)}, from: "a",
			want: "init passed; side passed; a passed; b failed Error exited with 3 (Error)"},
		"restarted after a failed probe": {events: append(all, killing(onA, 5), started(onA)), ended: []lifecycle.Ended{ok("init"), failed("a", 3, 9), ok("b")},
			want: "init passed; side passed; a failed Error exited with 3 (Error); b passed"},
	} {
		var events containerEvents
		for _, e := range c.events {
			events.observe(e)
		}
		p := endedPod{id: identity.Pod{Namespace: "ns", Name: "pod"}, spec: outcomePod(), ended: c.ended, err: c.err, from: c.from, events: &events}
		outcomes, explained := p.containers()
		var got []string
		for _, o := range outcomes {
			got = append(got, strings.TrimRight(fmt.Sprintf("%s %s %s %s", o.name, o.outcome, o.reason, o.message), " "))
		}
		if text := strings.Join(got, "; "); text != c.want || explained != c.explained {
			t.Errorf("%s:\n%s, explained %t; want\n%s, %t", name, text, explained, c.want, c.explained)
		}
	}
}

package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
)

var web = identity.Pod{Namespace: "default", Name: "web", UID: "u"}

// workOn returns the loop of a pod whose containers are in the given states, by name. A positive number is
// an exit code plus one.
func workOn(policy policy, containers map[string]int) *loop {
	p := &prepare.Plan{ID: web, Pod: &corev1.Pod{}}
	p.Pod.Namespace, p.Pod.Name, p.Pod.Spec.RestartPolicy = web.Namespace, web.Name, corev1.RestartPolicyNever
	l := newWorker(&node.Node{}, p, nil, nil).loop
	l.policy = policy
	l.pod.Observed = &lifecycle.Observed{Sandboxes: []lifecycle.Sandbox{{ID: "box", Ready: true}}}
	for _, name := range []string{"db", "app"} {
		state, exists := containers[name]
		if !exists {
			continue
		}
		p.Pod.Spec.Containers = append(p.Pod.Spec.Containers, corev1.Container{Name: name})
		c := lifecycle.Container{ID: name, Name: name, SandboxID: "box", State: lifecycle.Running, StartedAt: time.Unix(1, 0)}
		if state > 0 {
			c.State, c.ExitCode, c.FinishedAt, c.Reason = lifecycle.Exited, int32(state-1), time.Unix(2, 0), "Error"
		}
		l.pod.Observed.Containers = append(l.pod.Observed.Containers, c)
	}
	return l
}

// TestExplain checks the error and the hint of an operation that ended because of an error, a timeout or a
// signal.
func TestExplain(t *testing.T) {
	late, signal := error(problem.TimeoutError{After: 20 * time.Second}), errors.New("ended by SIGINT")
	const progress = "increase --timeout; run 'podrun describe web' or 'podrun logs web' to show the progress"
	one := map[string]int{"app": 0}
	for name, tc := range map[string]struct {
		cause, err error
		policy     policy
		containers map[string]int
		removed    bool // the command removes the pod at its end
		kind       problem.Kind
		text, hint string
	}{
		"no error":            {signal, nil, policy{}, one, false, "", "", ""},
		"an error":            {nil, errors.New("failed"), policy{}, one, false, "", "failed", ""},
		"a signal":            {signal, signal, policy{}, one, false, "", "pod default/web: ended by SIGINT", ""},
		"a signal in a call":  {signal, errors.New("canceled"), policy{}, one, false, "", "pod default/web: ended by SIGINT: canceled", ""},
		"a signal in a step":  {signal, &problem.Error{Kind: problem.Runtime, Op: "create sandbox", Err: errors.New("canceled")}, policy{}, one, false, "", "pod default/web: ended by SIGINT: create sandbox", ""},
		"an image":            {late, &problem.Error{Kind: problem.Image, Err: errors.New("not found")}, policy{}, one, false, problem.Image, "not found", ""},
		"a timeout":           {late, late, policy{}, one, false, problem.Deadline, "pod default/web: timed out after 20s", progress},
		"a timeout in a call": {late, errors.New("canceled"), policy{}, one, false, problem.Deadline, "pod default/web: timed out after 20s: canceled", progress},
		"a timeout of run --rm": {late, late, runPolicy(nil), one, true, problem.Deadline, "pod default/web: timed out after 20s",
			"increase --timeout, or set --rm=false to keep the pod for 'podrun logs' and 'podrun describe'"},
		"a timeout of run after an exit": {late, late, runPolicy(nil), map[string]int{"db": 0, "app": 5}, false, problem.Deadline, "pod default/web: timed out after 20s",
			"set --exit-code-from=app to end the run when this container exits, or " + progress},
		"a timeout of apply after an exit": {late, late, applyPolicy(nil), map[string]int{"db": 0, "app": 5}, false, problem.Deadline, "pod default/web: timed out after 20s", progress},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if tc.cause != nil {
			cancel(tc.cause)
		}
		l := workOn(tc.policy, tc.containers)
		l.pod.RemovedAtEnd = tc.removed
		err := l.explain(ctx, tc.err)
		cancel(nil)
		var text, hint string
		var kind problem.Kind
		if err != nil {
			text = err.Error()
		}
		if e, ok := errors.AsType[*problem.Error](err); ok {
			kind, hint = e.Kind, e.Hint
		}
		if text != tc.text || kind != tc.kind || hint != tc.hint {
			t.Errorf("%s:\n got %s %q %q\nwant %s %q %q", name, kind, text, hint, tc.kind, tc.text, tc.hint)
		}
	}
}

// TestUnreached checks which condition of a goal an error names, and that it names the exits of containers.
func TestUnreached(t *testing.T) {
	for name, tc := range map[string]struct {
		goal       lifecycle.Goal
		containers map[string]int
		want       string
	}{
		"completed, both run":        {lifecycle.GoalCompleted, map[string]int{"db": 0, "app": 0}, "the pod has not completed"},
		"completed, one has exited":  {lifecycle.GoalCompleted, map[string]int{"db": 0, "app": 5}, "the pod has not completed; container app exited with 4 (Error)"},
		"never":                      {lifecycle.GoalNever, map[string]int{"app": 5}, ""},
		"an ephemeral container":     {lifecycle.GoalDebugged("shell"), map[string]int{"app": 0}, "ephemeral container shell has not started"},
		"started, without container": {lifecycle.GoalStarted, nil, ""},
	} {
		if got := workOn(policy{}, tc.containers).unreached(tc.goal); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestReadHostError checks that the error of a step without a pod names the timeout or the signal that ended it.
func TestReadHostError(t *testing.T) {
	late, signal := error(problem.TimeoutError{After: time.Minute}), errors.New("ended by SIGINT")
	for _, tc := range []struct {
		cause, err error
		kind       problem.Kind
		want       string
	}{
		{nil, errors.New("failed"), "", "failed"},
		{signal, errors.New("canceled"), "", "read the host and its runtime: ended by SIGINT: canceled"},
		{late, errors.New("canceled"), problem.Deadline, "read the host and its runtime: timed out after 1m0s: canceled"},
		{late, late, "", "timed out after 1m0s"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if tc.cause != nil {
			cancel(tc.cause)
		}
		err := ReadHostError(ctx, tc.err)
		cancel(nil)
		var kind problem.Kind
		if e, ok := errors.AsType[*problem.Error](err); ok {
			kind = e.Kind
		}
		if err.Error() != tc.want || kind != tc.kind {
			t.Errorf("%s %q, want %s %q", kind, err, tc.kind, tc.want)
		}
	}
}

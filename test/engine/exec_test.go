package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
)

// execIn runs a command in the pod's only container.
func (r *rig) execIn(ctx context.Context, o access.ExecOptions) (stdout, stderr string, code int, err error) {
	r.t.Helper()
	e := r.engine()
	target, err := access.Find(r.t.Context(), e, "default", "web", "")
	if err != nil {
		r.t.Fatal(err)
	}
	var out, errs strings.Builder
	o.Out, o.Err = &out, &errs
	code, err = access.Exec(ctx, e, target, o)
	return out.String(), errs.String(), code, err
}

const execPod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {dnsPolicy: Default, terminationGracePeriodSeconds: 0, containers: [{name: app, image: registry.example/app:1, command: [sleep, "1000"]}]}`

var talk = []string{"sh", "-c", "echo out; echo err >&2; exit 7"}

// TestExecWithoutStreams covers a runtime without streaming. Exec must fall back to ExecSync if the
// command has not run yet and there is no input, which ExecSync cannot transmit.
func TestExecWithoutStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(execPod, run.OutcomeCreated)
	defer r.mustDelete()
	unimplemented := critest.Fault{When: critest.Before, Times: 1, Err: status.Error(codes.Unimplemented, "unknown method Exec")}
	r.rt.Fault("Exec", unimplemented)
	if out, errs, code, err := r.execIn(t.Context(), access.ExecOptions{Command: talk}); out != "out\n" || errs != "err\n" || code != 7 || err != nil {
		t.Errorf("%q, %q, %d, %v", out, errs, code, err)
	}
	if got := r.rt.CallNames("Exec", "ExecSync"); !slices.Equal(got, []string{"Exec app", "ExecSync app"}) {
		t.Errorf("calls: %q", got)
	}
	r.rt.ForgetCalls()
	r.rt.Fault("Exec", unimplemented)
	_, _, _, err := r.execIn(t.Context(), access.ExecOptions{Command: talk, Streams: access.Streams{In: strings.NewReader("in")}})
	wantErr(t, err, problem.Runtime, "pod default/web: container app: exec: ", "unknown method Exec")
	if got := r.rt.CallNames("ExecSync"); len(got) != 0 {
		t.Errorf("calls: %q", got)
	}
	// Exec must never repeat a call that may have run the command.
	r.rt.Fault("Exec", critest.Fault{When: critest.After, Times: 1})
	_, _, _, err = r.execIn(t.Context(), access.ExecOptions{Command: talk})
	wantErr(t, err, problem.Runtime)
	if got := r.rt.CallNames("ExecSync"); len(got) != 0 {
		t.Errorf("calls: %q", got)
	}
}

// TestExecTimeout checks that the timeout is at least a second, and that podrun recognizes the
// different errors of the runtimes.
func TestExecTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(execPod, run.OutcomeCreated)
	defer r.mustDelete()
	if out, errs, code, err := r.execIn(t.Context(), access.ExecOptions{Command: talk, Timeout: time.Millisecond}); out != "out\n" || errs != "err\n" || code != 7 || err != nil {
		t.Errorf("%q, %q, %d, %v", out, errs, code, err)
	}
	_, _, code, err := r.execIn(t.Context(), access.ExecOptions{Command: []string{"sleep", "60"}, Timeout: 100 * time.Millisecond})
	wantErr(t, err, problem.Deadline, "timed out after 1s; the command was killed")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	// This is CRI-O's result.
	r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: -1, Stderr: "command timed out"} })
	_, _, _, err = r.execIn(t.Context(), access.ExecOptions{Command: talk, Timeout: time.Second})
	wantErr(t, err, problem.Deadline, "timed out after 1s; the command was killed")
}

// TestExecContainerEnds covers a container that exits between its observation and the call, or
// while its command runs.
func TestExecContainerEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(strings.Replace(execPod, "spec: {", "spec: {restartPolicy: Never, ", 1), run.OutcomeCreated)
	defer r.mustDelete()
	e := r.engine()
	target, err := access.Find(t.Context(), e, "default", "web", "app")
	if err != nil {
		t.Fatal(err)
	}
	stop := writerFunc(func([]byte) error { return r.rt.Client().StopContainer(context.Background(), target.ID, 0) })
	var out strings.Builder
	o := access.ExecOptions{Command: []string{"sh", "-c", "echo up; sleep 1000"}, Streams: access.Streams{Out: stop, Err: &out}}
	if code, err := access.Exec(t.Context(), e, target, o); err != nil || code != 137 {
		t.Errorf("code %d, %v", code, err)
	}
	for _, limit := range []time.Duration{0, time.Second} {
		o.Timeout = limit
		_, err = access.Exec(t.Context(), e, target, o)
		wantErr(t, err, problem.Failed, "pod default/web: container app: is not running: it has just exited with 137")
		wantHint(t, err, "run 'podrun logs web -c app' to show its output, or 'podrun restart web' to restart the pod")
	}
	_, err = access.Find(t.Context(), e, "default", "web", "app")
	wantErr(t, err, problem.Failed, "pod default/web: container app: is not running: it exited with 137")
	wantHint(t, err, "'podrun restart web' to restart the pod")
}

// writerFunc is a writer that calls a function.
type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// TestExecDuringAReplacement covers an exec while a pod is being replaced. The error must contain a
// hint.
func TestExecDuringAReplacement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(one("Always"), run.OutcomeCreated)
		defer r.rt.Fault("CreateContainer", critest.Fault{When: critest.Slow, Delay: 5 * time.Second})()
		done := make(chan run.Result)
		go func() { done <- r.apply(strings.Replace(one("Always"), "app:1}", "app:1, args: [x]}", 1)) }()
		for r.callsTo("CreateContainer") < 2 {
			time.Sleep(100 * time.Millisecond)
		}
		_, err := access.Find(t.Context(), r.engine(), "default", "web", "")
		if e, ok := errors.AsType[*problem.Error](err); !ok || !strings.Contains(e.Hint, "run 'podrun wait web --for=started', then repeat the command") {
			t.Errorf("the error is %v", err)
		}
		if result := <-done; result.Err != nil {
			t.Error(result.Err)
		}
		if _, err := access.Find(t.Context(), r.engine(), "default", "web", ""); err != nil {
			t.Error(err)
		}
		r.mustDelete()
	})
}

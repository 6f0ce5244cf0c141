package report

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
	"github.com/podrun/podrun/test/engine/rig"
)

// execIn runs a command in the pod's only container.
func execIn(r *rig.Host, ctx context.Context, o access.ExecOptions) (stdout, stderr string, code int, err error) {
	r.T.Helper()
	e := r.Engine()
	target, err := access.Find(r.T.Context(), e, "default", "web", "")
	if err != nil {
		r.T.Fatal(err)
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
	r := rig.New(t)
	r.MustApply(execPod, run.OutcomeCreated)
	defer r.MustDelete()
	unimplemented := critest.Fault{When: critest.Before, Times: 1, Err: status.Error(codes.Unimplemented, "unknown method Exec")}
	r.Runtime.Fault("Exec", unimplemented)
	if out, errs, code, err := execIn(r, t.Context(), access.ExecOptions{Command: talk}); out != "out\n" || errs != "err\n" || code != 7 || err != nil {
		t.Errorf("%q, %q, %d, %v", out, errs, code, err)
	}
	if got := r.Runtime.CallNames("Exec", "ExecSync"); !slices.Equal(got, []string{"Exec app", "ExecSync app"}) {
		t.Errorf("calls: %q", got)
	}
	r.Runtime.ForgetCalls()
	r.Runtime.Fault("Exec", unimplemented)
	_, _, _, err := execIn(r, t.Context(), access.ExecOptions{Command: talk, Streams: access.Streams{In: strings.NewReader("in")}})
	rig.WantErr(t, err, problem.Runtime, "pod default/web: container app: exec: ", "unknown method Exec")
	if got := r.Runtime.CallNames("ExecSync"); len(got) != 0 {
		t.Errorf("calls: %q", got)
	}
	// Exec must never repeat a call that may have run the command.
	r.Runtime.Fault("Exec", critest.Fault{When: critest.After, Times: 1})
	_, _, _, err = execIn(r, t.Context(), access.ExecOptions{Command: talk})
	rig.WantErr(t, err, problem.Runtime)
	if got := r.Runtime.CallNames("ExecSync"); len(got) != 0 {
		t.Errorf("calls: %q", got)
	}
}

// TestExecTimeout checks that the timeout is at least a second, and that podrun recognizes the
// different errors of the runtimes.
func TestExecTimeout(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(execPod, run.OutcomeCreated)
	defer r.MustDelete()
	if out, errs, code, err := execIn(r, t.Context(), access.ExecOptions{Command: talk, Timeout: time.Millisecond}); out != "out\n" || errs != "err\n" || code != 7 || err != nil {
		t.Errorf("%q, %q, %d, %v", out, errs, code, err)
	}
	_, _, code, err := execIn(r, t.Context(), access.ExecOptions{Command: []string{"sleep", "60"}, Timeout: 100 * time.Millisecond})
	rig.WantErr(t, err, problem.Deadline, "timed out after 1s; the command was killed")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	// This is CRI-O's result.
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: -1, Stderr: "command timed out"} })
	_, _, _, err = execIn(r, t.Context(), access.ExecOptions{Command: talk, Timeout: time.Second})
	rig.WantErr(t, err, problem.Deadline, "timed out after 1s; the command was killed")
}

// TestExecContainerEnds covers a container that exits between its observation and the call, or
// while its command runs.
func TestExecContainerEnds(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(strings.Replace(execPod, "spec: {", "spec: {restartPolicy: Never, ", 1), run.OutcomeCreated)
	defer r.MustDelete()
	e := r.Engine()
	target, err := access.Find(t.Context(), e, "default", "web", "app")
	if err != nil {
		t.Fatal(err)
	}
	stop := writerFunc(func([]byte) error { return r.Runtime.Client().StopContainer(context.Background(), target.ID, 0) })
	var out strings.Builder
	o := access.ExecOptions{Command: []string{"sh", "-c", "echo up; sleep 1000"}, Streams: access.Streams{Out: stop, Err: &out}}
	if code, err := access.Exec(t.Context(), e, target, o); err != nil || code != 137 {
		t.Errorf("code %d, %v", code, err)
	}
	for _, limit := range []time.Duration{0, time.Second} {
		o.Timeout = limit
		_, err = access.Exec(t.Context(), e, target, o)
		rig.WantErr(t, err, problem.Failed, "pod default/web: container app: is not running: it has just exited with 137")
		rig.WantHint(t, err, "run 'podrun logs web -c app' to show its output, or 'podrun restart web' to restart the pod")
	}
	_, err = access.Find(t.Context(), e, "default", "web", "app")
	rig.WantErr(t, err, problem.Failed, "pod default/web: container app: is not running: it exited with 137")
	rig.WantHint(t, err, "'podrun restart web' to restart the pod")
}

// writerFunc is a writer that calls a function.
type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// TestExecDuringAReplacement covers an exec while a pod is being replaced. The error must contain a
// hint.
func TestExecDuringAReplacement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		defer r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Slow, Delay: 5 * time.Second})()
		done := make(chan run.Result)
		go func() { done <- r.Apply(strings.Replace(rig.Web("Always"), "app:1}", "app:1, args: [x]}", 1)) }()
		for r.CallsTo("CreateContainer") < 2 {
			time.Sleep(100 * time.Millisecond)
		}
		_, err := access.Find(t.Context(), r.Engine(), "default", "web", "")
		if e, ok := errors.AsType[*problem.Error](err); !ok || !strings.Contains(e.Hint, "run 'podrun wait web --for=started', then repeat the command") {
			t.Errorf("the error is %v", err)
		}
		if result := <-done; result.Err != nil {
			t.Error(result.Err)
		}
		if _, err := access.Find(t.Context(), r.Engine(), "default", "web", ""); err != nil {
			t.Error(err)
		}
		r.MustDelete()
	})
}

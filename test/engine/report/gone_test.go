package report

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/test/engine/rig"
)

// goneTexts are errors of containerd and runc for a command in a container that is being stopped or removed.
var goneTexts = []string{
	`failed to exec in container: failed to create exec "af": cannot exec in a stopped state: unknown`,
	`failed to exec in container: failed to create exec "af": cannot exec in a deleted state: unknown`,
	`failed to exec in container: failed to create exec "af": container not created: not found`,
	`failed to exec in container: failed to create exec "af": task bc not found: not found`,
	`failed to exec in container: failed to start exec "af": OCI runtime exec failed: exec failed: unable to start container process: error executing setns process: exit status 1: unknown`,
	`failed to start exec "af": OCI runtime exec failed: exec failed: unable to start container process: unable to create new parent process: namespace path: lstat /proc/30705/ns/ipc: no such file or directory: unknown`,
	`an error that podrun does not know`,
}

// TestOperationsOnGoneContainers covers exec, attach and the URLs of both if the container exits, is removed, or is
// deleted with its pod between the observation and the call: the error names the object and the reason, without
// the runtime's text, and the exit code is 1.
func TestOperationsOnGoneContainers(t *testing.T) {
	t.Parallel()
	const (
		exited  = "pod default/web: container app: is not running: it has just exited with 137 (Error)"
		removed = "pod default/web: container app: not found: it has just been removed"
		deleted = "pod default/web: not found: it has just been removed"
	)
	for _, c := range []struct {
		want, hint string
		end        func(*rig.Host, access.Target)
	}{
		{exited, "'podrun logs web -c app'", func(r *rig.Host, target access.Target) { stopContainer(r, target.ID) }},
		{removed, "run 'podrun describe web' for details", func(r *rig.Host, target access.Target) {
			stopContainer(r, target.ID)
			if err := r.Runtime.Client().RemoveContainer(context.Background(), target.ID); err != nil {
				r.T.Fatal(err)
			}
		}},
		{deleted, "run 'podrun get -A' to list all pods", func(r *rig.Host, _ access.Target) { r.MustDelete() }},
	} {
		r := rig.New(t)
		r.MustApply(strings.Replace(execPod, "spec: {", "spec: {restartPolicy: Never, ", 1), run.OutcomeCreated)
		e := r.Engine()
		target, err := access.Find(t.Context(), e, "default", "web", "app")
		if err != nil {
			t.Fatal(err)
		}
		c.end(r, target)
		for _, text := range goneTexts {
			fault := critest.Fault{When: critest.Before, Times: 1, Err: status.Error(codes.Unknown, text)}
			var none strings.Builder
			streams := access.Streams{Out: &none, Err: &none}
			for _, limit := range []time.Duration{0, time.Second} {
				defer r.Runtime.Fault("Exec", fault)()
				defer r.Runtime.Fault("ExecSync", fault)()
				code, err := access.Exec(t.Context(), e, target, access.ExecOptions{Command: talk, Timeout: limit, Streams: streams})
				wantGone(t, code, err, c.want, c.hint)
			}
			defer r.Runtime.Fault("Attach", fault)()
			wantGone(t, 0, access.Attach(t.Context(), e, target, streams), c.want, c.hint)
		}
		r.MustDelete()
	}
}

// wantGone checks the whole error of an operation on a container that is gone.
func wantGone(t *testing.T, code int, err error, want, hint string) {
	t.Helper()
	rig.WantErr(t, err, problem.Failed)
	if code != 0 || err.Error() != want {
		t.Errorf("code %d, %v; want %s", code, err, want)
	}
	rig.WantHint(t, err, hint)
}

func stopContainer(r *rig.Host, id string) {
	r.T.Helper()
	if err := r.Runtime.Client().StopContainer(context.Background(), id, 0); err != nil {
		r.T.Fatal(err)
	}
}

// TestExecWhileTheProcessIsKilled covers a container whose process was killed while runc entered its namespaces: the
// runtime records the exit only after it has returned the error. If the container keeps running, the error is
// runc's.
func TestExecWhileTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(strings.Replace(execPod, "spec: {", "spec: {restartPolicy: Never, ", 1), run.OutcomeCreated)
		e := r.Engine()
		target, err := access.Find(t.Context(), e, "default", "web", "app")
		if err != nil {
			t.Fatal(err)
		}
		fault := critest.Fault{When: critest.Before, Times: 1, Err: status.Error(codes.Unknown, goneTexts[4])}
		o := access.ExecOptions{Command: talk, Timeout: time.Second}
		r.Runtime.Fault("ExecSync", fault)
		code, err := access.Exec(t.Context(), e, target, o)
		rig.WantErr(t, err, problem.Failed, "container app: exec: error executing setns process: exit status 1")
		if code != access.ExecNotExecutable {
			t.Errorf("code %d", code)
		}
		r.Runtime.Fault("ExecSync", fault)
		time.AfterFunc(200*time.Millisecond, func() { stopContainer(r, target.ID) })
		code, err = access.Exec(t.Context(), e, target, o)
		wantGone(t, code, err, "pod default/web: container app: is not running: it has just exited with 137 (Error)", "'podrun logs web -c app'")
		r.MustDelete()
	})
}

// TestLogsOfARemovedContainer covers a pod that is deleted after Logs has found the log, and a log that is missing
// although the container exists.
func TestLogsOfARemovedContainer(t *testing.T) {
	t.Parallel()
	for _, follow := range []bool{false, true} {
		r := rig.New(t)
		r.MustApply(execPod, run.OutcomeCreated)
		e := r.Engine()
		logs, err := access.Logs(t.Context(), e, access.LogsRequest{Namespace: "default", Name: "web", All: true})
		if err != nil {
			t.Fatal(err)
		}
		l := logs[0]
		lost := fs.ErrNotExist
		if err := access.ExplainLog(t.Context(), e, l, lost); !errors.Is(err, lost) {
			t.Errorf("a missing log of a container that exists: %v", err)
		}
		r.MustDelete()
		src := podlog.Source{Container: l.Container, Path: l.Path, State: string(l.State),
			Alive:   func(ctx context.Context) (bool, error) { return access.Alive(ctx, e, l.ID) },
			Missing: func(ctx context.Context, err error) error { return access.ExplainLog(ctx, e, l, err) }}
		var out strings.Builder
		err = podlog.Stream(t.Context(), src, podlog.Output{Stdout: &out, Stderr: &out}, podlog.Options{Follow: follow})
		wantGone(t, 0, err, "pod default/web: not found: it has just been removed", "run 'podrun get -A' to list all pods")
	}
}

// TestLogsDuringARemoval covers a container whose log has already been removed, but not the container.
func TestLogsDuringARemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(strings.Replace(execPod, "spec: {", "spec: {restartPolicy: Never, ", 1), run.OutcomeCreated)
		e := r.Engine()
		logs, err := access.Logs(t.Context(), e, access.LogsRequest{Namespace: "default", Name: "web", All: true})
		if err != nil {
			t.Fatal(err)
		}
		stopContainer(r, logs[0].ID)
		if err := access.ExplainLog(t.Context(), e, logs[0], fs.ErrNotExist); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing log of a container that exists: %v", err)
		}
		time.AfterFunc(200*time.Millisecond, func() {
			if err := r.Runtime.Client().RemoveContainer(context.Background(), logs[0].ID); err != nil {
				t.Error(err)
			}
		})
		err = access.ExplainLog(t.Context(), e, logs[0], fs.ErrNotExist)
		wantGone(t, 0, err, "pod default/web: container app: not found: it has just been removed", "run 'podrun describe web' for details")
		r.MustDelete()
	})
}

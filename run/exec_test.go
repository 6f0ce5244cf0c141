package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
)

func TestChooseContainer(t *testing.T) {
	container := func(names ...string) (list []corev1.Container) {
		for _, n := range names {
			list = append(list, corev1.Container{Name: n})
		}
		return list
	}
	for _, c := range []struct {
		inits, apps      []corev1.Container
		annotation, name string
		want, err        string
		among            []string
	}{
		{nil, container("app"), "", "", "app", "", nil},
		{nil, container("a", "b"), "", "", "a", "", []string{"a", "b"}},
		{container("i"), container("a"), "", "", "a", "", []string{"a", "i (init)"}},
		{container("i"), container("a", "b"), "", "b", "b", "", nil},
		{container("i"), container("a", "b"), "", "i", "i", "", nil},
		{container("i"), container("a", "b"), "b", "", "b", "", nil},
		{container("i"), container("a", "b"), "b", "a", "a", "", nil},
		{container("i"), container("a", "b"), "", "c", "", `it has no container "c"; it has a, b, i (init)`, nil},
		{nil, container("a", "b"), "c", "", "", `it has no container (its annotation names it) "c"; it has a, b`, nil},
		{nil, nil, "", "", "", "it has no containers", nil},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: c.inits, Containers: c.apps}}
		if c.annotation != "" {
			pod.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": c.annotation}
		}
		got, among, err := chooseContainer(pod, c.name)
		if got != c.want || !slices.Equal(among, c.among) && err == nil || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%+v: got %q, %q, %v", c, got, among, err)
		}
	}
}

// execIn runs a command in the pod's only container.
func (r *rig) execIn(ctx context.Context, o ExecOptions) (stdout, stderr string, code int, err error) {
	r.t.Helper()
	e := r.engine()
	target, err := e.ExecTarget(r.t.Context(), "default", "web", "")
	if err != nil {
		r.t.Fatal(err)
	}
	var out, errs strings.Builder
	o.Out, o.Err = &out, &errs
	code, err = e.Exec(ctx, target, o)
	return out.String(), errs.String(), code, err
}

const execPod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {dnsPolicy: Default, terminationGracePeriodSeconds: 0, containers: [{name: app, image: registry.example/app:1, command: [sleep, "1000"]}]}`

var talk = []string{"sh", "-c", "echo out; echo err >&2; exit 7"}

// TestExecWithoutStreams falls back to ExecSync where nothing was run yet, but
// not if there is input, which ExecSync cannot pass on.
func TestExecWithoutStreams(t *testing.T) {
	r := newRig(t)
	r.mustApply(execPod, OutcomeCreated)
	defer r.mustDelete()
	unimplemented := critest.Fault{When: critest.Before, Times: 1, Err: status.Error(codes.Unimplemented, "unknown method Exec")}
	r.rt.Fault("Exec", unimplemented)
	if out, errs, code, err := r.execIn(t.Context(), ExecOptions{Command: talk}); out != "out\n" || errs != "err\n" || code != 7 || err != nil {
		t.Errorf("%q, %q, %d, %v", out, errs, code, err)
	}
	if got := r.rt.CallNames("Exec", "ExecSync"); !slices.Equal(got, []string{"Exec app", "ExecSync app"}) {
		t.Errorf("calls: %q", got)
	}
	r.rt.ForgetCalls()
	r.rt.Fault("Exec", unimplemented)
	_, _, _, err := r.execIn(t.Context(), ExecOptions{Command: talk, Streams: Streams{In: strings.NewReader("in")}})
	wantErr(t, err, problem.Runtime, "pod default/web: container app: exec: ", "unknown method Exec")
	if got := r.rt.CallNames("ExecSync"); len(got) != 0 {
		t.Errorf("calls: %q", got)
	}
	// A call that may have run the command is never made again.
	r.rt.Fault("Exec", critest.Fault{When: critest.After, Times: 1})
	_, _, _, err = r.execIn(t.Context(), ExecOptions{Command: talk})
	wantErr(t, err, problem.Runtime)
	if got := r.rt.CallNames("ExecSync"); len(got) != 0 {
		t.Errorf("calls: %q", got)
	}
}

// TestExecTimeout has whole seconds at least, and distinguishes the runtime's answers
// apart.
func TestExecTimeout(t *testing.T) {
	r := newRig(t)
	r.mustApply(execPod, OutcomeCreated)
	defer r.mustDelete()
	if out, errs, code, err := r.execIn(t.Context(), ExecOptions{Command: talk, Timeout: time.Millisecond}); out != "out\n" || errs != "err\n" || code != 7 || err != nil {
		t.Errorf("%q, %q, %d, %v", out, errs, code, err)
	}
	_, _, code, err := r.execIn(t.Context(), ExecOptions{Command: []string{"sleep", "60"}, Timeout: 100 * time.Millisecond})
	wantErr(t, err, problem.Deadline, "timed out after 1s; the command was killed")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	// As CRI-O answers.
	r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: -1, Stderr: "command timed out"} })
	_, _, _, err = r.execIn(t.Context(), ExecOptions{Command: talk, Timeout: time.Second})
	wantErr(t, err, problem.Deadline, "timed out after 1s; the command was killed")
}

// TestExecContainerEnds has a container that ends between the look and the
// call, and one that ends under its command.
func TestExecContainerEnds(t *testing.T) {
	r := newRig(t)
	r.mustApply(strings.Replace(execPod, "spec: {", "spec: {restartPolicy: Never, ", 1), OutcomeCreated)
	defer r.mustDelete()
	e := r.engine()
	target, err := e.ExecTarget(t.Context(), "default", "web", "app")
	if err != nil {
		t.Fatal(err)
	}
	stop := writerFunc(func([]byte) error { return r.rt.Client().StopContainer(context.Background(), target.ID, 0) })
	var out strings.Builder
	o := ExecOptions{Command: []string{"sh", "-c", "echo up; sleep 1000"}, Streams: Streams{Out: stop, Err: &out}}
	if code, err := e.Exec(t.Context(), target, o); err != nil || code != 137 {
		t.Errorf("code %d, %v", code, err)
	}
	for _, limit := range []time.Duration{0, time.Second} {
		o.Timeout = limit
		_, err = e.Exec(t.Context(), target, o)
		wantErr(t, err, problem.Failed, "pod default/web: container app: is not running: it has ended just now")
	}
	_, err = e.ExecTarget(t.Context(), "default", "web", "app")
	wantErr(t, err, problem.Failed, "pod default/web: container app: is not running: it has exited with 137")
}

// writerFunc is a writer that does something else.
type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// TestExecFault has the words of runtimes for commands that cannot be run.
func TestExecFault(t *testing.T) {
	for _, c := range []struct {
		text, want string
		kind       problem.Kind
		code       int
	}{
		{`failed to exec in container: failed to start exec "af": OCI runtime exec failed: exec failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown`,
			`exec: "x": executable file not found in $PATH`, problem.Failed, 127},
		{`Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "af": OCI runtime exec failed: exec failed: unable to start container process: exec: "/x": stat /x: no such file or directory: unknown`,
			`exec: "/x": stat /x: no such file or directory`, problem.Failed, 127},
		{`OCI runtime exec failed: exec failed: unable to start container process: exec: "/etc": permission denied: unknown`,
			`exec: "/etc": permission denied`, problem.Failed, 126},
		{`OCI runtime exec failed: exec failed: container_linux.go:380: starting container process caused: exec format error: unknown`,
			`starting container process caused: exec format error`, problem.Failed, 126},
		{"OCI runtime exec failed: exec failed: executable file `x` not found in $PATH: No such file or directory: unknown",
			"executable file `x` not found in $PATH: No such file or directory", problem.Failed, 127},
		{"shim disconnected", "shim disconnected", problem.Runtime, 0},
	} {
		code, err := ExecTarget{Container: "app"}.fault("exec", errors.New(c.text))
		wantErr(t, err, c.kind, "container app: exec: ")
		if code != c.code || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: code %d, %v", c.text, code, err)
		}
	}
}

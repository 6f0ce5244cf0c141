package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// Target is the container in which a hook runs, and how podrun reaches it.
type Target struct {
	ContainerID string
	// empty, as in the kubelet, if the pod uses the host's network
	PodIP string
	// Exec runs a command in the container, and waits until the command exits. It has no timeout.
	Exec func(ctx context.Context, containerID string, command []string) (stdout, stderr []byte, code int32, err error)
}

// HookError is the failure of a hook.
type HookError struct {
	Plan Plan
	// Output is the first 10 KiB of the output of an exec hook, stdout first. It may contain
	// secrets, so the kubelet does not include it in events. Only the pod's author may see it.
	Output string
	Err    error
}

// maxOutput is the maximum number of bytes that podrun keeps of the hook's output and of the
// runtime's error message. The limit is the same as for probes.
const maxOutput = 10 << 10

// Error returns the kubelet's message for the failure.
func (e *HookError) Error() string {
	p := e.Plan
	of := fmt.Sprintf("for Container %q in Pod %q failed - error: %s", p.Container, p.ID.Ref(), event.CutBytes(e.Err.Error(), maxOutput))
	switch p.Kind {
	case Exec:
		return fmt.Sprintf("Exec lifecycle hook (%s) %s, message: %q", event.CutBytes(fmt.Sprint(p.Command), maxOutput), of, e.Output)
	case HTTPGet:
		return fmt.Sprintf("HTTP lifecycle hook (%s) %s", p.HTTP.Path, of)
	case Sleep:
		return fmt.Sprintf("Sleep lifecycle hook (%d) %s", p.Seconds, of)
	}
	return "Cannot run handler: " + event.CutBytes(e.Err.Error(), maxOutput)
}

// Unwrap returns the cause.
func (e *HookError) Unwrap() error { return e.Err }

// Event returns the message of the kubelet's FailedPostStartHook or FailedPreStopHook event. It
// never contains the hook's output.
func (e *HookError) Event() string {
	if e.Plan.Hook == PreStop {
		return "PreStopHook failed"
	}
	return "PostStartHook failed"
}

// Apply runs the hook, and waits until the hook has finished. Only ctx limits its duration. The
// error is a *problem.Error that wraps a *HookError. If ctx's deadline interrupted the hook, its
// kind is Deadline; otherwise it is Failed.
func Apply(ctx context.Context, p Plan, t Target) error {
	output, err := run(ctx, p, t)
	if err == nil {
		return nil
	}
	out := &problem.Error{Kind: problem.Failed, Object: "container " + p.Container, Op: p.Hook + " hook",
		Err: &HookError{Plan: p, Output: output, Err: err}}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		out.Kind = problem.Deadline
		out.Hint = "hooks have no timeout of their own: increase --timeout, or shorten the hook"
	}
	return out
}

func run(ctx context.Context, p Plan, t Target) (output string, err error) {
	if p.Problem != "" {
		return "", errors.New(p.Problem)
	}
	switch p.Kind {
	case Exec:
		return runExec(ctx, p, t)
	case HTTPGet:
		return "", runHTTP(ctx, *p.HTTP, t)
	case Sleep:
		return "", runSleep(ctx, time.Duration(p.Seconds)*time.Second)
	}
	return "", fmt.Errorf("invalid handler: %q", p.Kind)
}

func runExec(ctx context.Context, p Plan, t Target) (string, error) {
	stdout, stderr, code, err := t.Exec(ctx, t.ContainerID, p.Command)
	stdout, stderr = stdout[:min(len(stdout), 2*maxOutput)], stderr[:min(len(stderr), 2*maxOutput)]
	output := event.CutBytes(string(stdout)+string(stderr), maxOutput)
	if err == nil && code != 0 {
		command := event.CutBytes(strings.Join(p.Command, " "), maxOutput/2)
		err = fmt.Errorf("command '%s' exited with %d: %s", command, code, event.CutBytes(string(stderr), maxOutput/2))
	}
	return output, err
}

func runSleep(ctx context.Context, d time.Duration) error {
	if err := wait.Sleep(ctx, d); err != nil {
		return fmt.Errorf("container terminated before sleep hook finished: %w", err)
	}
	return nil
}

// Cause returns the HookError that err wraps, without the context that callers have added. If err
// does not wrap a HookError, Cause returns err.
func Cause(err error) error {
	if e, ok := errors.AsType[*HookError](err); ok {
		return e
	}
	return err
}

// EventOf returns the event message of a failed hook. If err does not wrap a HookError, it
// returns the argument otherwise.
func EventOf(err error, otherwise string) string {
	if e, ok := errors.AsType[*HookError](err); ok {
		return e.Event()
	}
	return otherwise
}

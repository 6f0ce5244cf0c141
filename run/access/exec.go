package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// ExecTarget is a running container.
type Target struct {
	Pod       identity.Pod
	Container string
	ID        string
	// If podrun chose one of several containers of the pod, Among lists all of them and marks init
	// containers. Otherwise it is empty.
	Among []string
	// Stdin and TTY are the settings of the container's main process.
	Stdin, TTY bool
}

func (t Target) object() string { return "pod " + t.Pod.String() + ": container " + t.Container }

// FindTarget finds the named container of a pod. If the name is empty, it finds the one that
// kubectl exec uses: the container that the pod's annotation names, or the first one. The error
// is of kind Usage if the pod has no such container, Failed if the pod is not found or its
// container does not run, and Runtime if the runtime does not respond.
func Find(ctx context.Context, n *node.Node, namespace, name, container string) (Target, error) {
	seen, err := lookup.ObservePod(ctx, n, namespace, name)
	if err != nil {
		return Target{}, err
	}
	t := Target{Pod: seen.ID}
	t.Container, t.Among, err = ChooseContainer(seen.Pod, container)
	if err != nil {
		return t, &problem.Error{Kind: problem.Usage, Object: "pod " + seen.ID.String(), Err: err, Hint: "select one with -c"}
	}
	for _, c := range lifecycle.SpecContainers(seen.Pod) {
		if c.Container.Name == t.Container {
			t.Stdin = c.Container.Stdin
			t.TTY = c.Container.TTY
		}
	}
	c := seen.Obs.Container(t.Container)
	if c == nil && lifecycle.FindContainer(seen.Pod, t.Container).Ephemeral {
		// The container may have exited permanently in an earlier sandbox.
		c = seen.Obs.Newest(t.Container)
	}
	if c == nil || c.State != lifecycle.Running {
		return t, withProgress(n, t, c, t.NotRunning(c))
	}
	t.ID = c.ID
	return t, nil
}

// NotRunning describes the state of a container that is not running.
func (t Target) NotRunning(c *lifecycle.Container) *problem.Error {
	err := &problem.Error{Kind: problem.Failed, Object: t.object(), Hint: "run 'podrun describe " + t.Pod.Name + "' for details"}
	switch {
	case c == nil:
		err.Err = errors.New("is not running: it has not been created yet")
	case c.State == lifecycle.Created:
		err.Err = errors.New("is not running: it has not been started yet")
	case c.State == lifecycle.Exited:
		err.Err = fmt.Errorf("is not running: it exited with %d%s", c.ExitCode, inParentheses(c.Reason))
		err.Hint = t.endedHint()
	default:
		err.Err = errors.New("is not running: the runtime reports its state as unknown")
	}
	return err
}

// withProgress replaces the hint of an error that notRunning returned if a podrun process is starting, replacing or
// removing the pod.
func withProgress(n *node.Node, t Target, c *lifecycle.Container, err *problem.Error) error {
	owner, failed := store.ReadOwner(n.Layout(), t.Pod)
	if failed != nil || owner == nil || !owner.Live(n.Layout()) {
		return err
	}
	if ended := c != nil && c.State == lifecycle.Exited; ended && !owner.Ends() {
		return err
	}
	if owner.Removes() && owner.Purpose != store.PurposeRun {
		return err
	}
	err.Hint = owner.Shown() + " is starting or replacing the pod: run 'podrun wait " + t.Pod.Args() + " --for=started', then repeat the command"
	return err
}

// ExecOptions are the command to run in a container, its streams and its timeout.
type ExecOptions struct {
	Command []string
	Timeout time.Duration // 0 for no limit
	Streams
}

// Streams are the streams of a process in a container, and TerminalSize is the size of the
// user's terminal.
type (
	Streams      = cri.Streams
	TerminalSize = cri.TerminalSize
)

// The exit codes of a command that could not be started, the same as those of env(1) and shells.
const (
	ExecNotExecutable = 126
	ExecNotFound      = 127
)

// Exec runs a command in a container and returns its exit code. It streams the command's output. If
// Timeout is set and In is nil, the output is available only after the command has ended, because
// Exec then uses the CRI call ExecSync: only this call kills a command that exceeds its timeout,
// and it supports neither streaming nor a terminal. If the runtime does not support streaming, Exec
// also uses ExecSync for a command without In.
//
// If there is an error, the code may be ExecNotFound or ExecNotExecutable: the command could not be
// started, and the error explains why.
func Exec(ctx context.Context, n *node.Node, t Target, o ExecOptions) (int, error) {
	if o.Timeout > 0 && o.In == nil && !o.TTY {
		code, err := execSync(ctx, n, t, o)
		return explainGone(ctx, n, t, code, err)
	}
	limited, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	code, err := n.Client.Streaming.Exec(limited, t.ID, o.Command, o.Streams)
	_, unreachable := errors.AsType[*cri.NotStreamedError](err)
	switch {
	case err == nil:
		return code, nil
	case limited.Err() != nil && !unreachable:
		err = fmt.Errorf("%w; the command may still be running in the container", err)
	case limited.Err() == nil && o.In == nil && !o.TTY && (unreachable || status.Code(err) == codes.Unimplemented):
		code, err = execSync(ctx, n, t, o)
		return explainGone(ctx, n, t, code, err)
	}
	return fault(ctx, n, t, "exec", err)
}

// inParentheses returns a space and the text in parentheses, or "" if the text is empty.
func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// endedHint is the hint of an error about a container that has exited.
func (t Target) endedHint() string {
	in := t.Pod.Args()
	return "run 'podrun logs " + in + " -c " + t.Container + "' to show its output, or 'podrun restart " + in + "' to restart the pod"
}

// execSync runs a command and writes its output after the command has exited.
func execSync(ctx context.Context, n *node.Node, t Target, o ExecOptions) (int, error) {
	// CRI timeouts are in whole seconds, and 0 means no limit.
	limit := (o.Timeout + time.Second - 1).Truncate(time.Second)
	resp, err := n.Client.ExecSync(ctx, t.ID, o.Command, limit)
	switch {
	case ctx.Err() != nil:
		return t.Fault("exec", context.Cause(ctx))
	case o.Timeout > 0 && (status.Code(err) == codes.DeadlineExceeded || resp.GetExitCode() < 0):
		// After a timeout, CRI-O returns exit code -1 and no error.
		return t.Fault("exec", fmt.Errorf("%w; the command was killed", problem.TimeoutError{After: limit}))
	case err != nil:
		return t.Fault("exec", err)
	}
	_, err = o.Out.Write(resp.GetStdout())
	if _, err2 := o.Err.Write(resp.GetStderr()); err == nil {
		err = err2
	}
	if err != nil {
		return t.Fault("exec", fmt.Errorf("write the command's output: %w", err))
	}
	return int(resp.GetExitCode()), nil
}

// Fault returns the exit code and the error for a failed operation on a container, such as
// exec.
func (t Target) Fault(op string, err error) (int, error) {
	out := &problem.Error{Kind: problem.Runtime, Object: t.object(), Op: op, Err: err}
	_, late := errors.AsType[problem.TimeoutError](err)
	why, absent, notStarted := cri.ExecFailure(err)
	switch {
	case late:
		out.Kind = problem.Deadline
	case status.Code(err) == codes.NotFound, cri.NotRunning(err):
		out.Kind = problem.Failed
		out.Op = ""
		out.Err = ErrEnded
		out.Hint = t.endedHint()
	case notStarted:
		out.Kind = problem.Failed
		out.Err = errors.New(why)
		if absent {
			return ExecNotFound, out
		}
		return ExecNotExecutable, out
	}
	return 0, out
}

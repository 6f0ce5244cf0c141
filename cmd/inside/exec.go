package inside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/ownruntime"
)

type execFlags struct {
	container  string
	stdin, tty bool
	timeout    time.Duration
}

// NewExec returns the command exec.
func NewExec(a *cli.App) *cobra.Command {
	f := &execFlags{}
	c := &cobra.Command{
		Use:   "exec NAME [-c CONTAINER] [-i] [-t] -- COMMAND [ARG...]",
		Short: "Run a command in a container of a pod",
		Long: `Run a command in a container of a running pod, as 'kubectl exec' does, and exit
with the command's exit code. The exit code is 127 if the container does not have the
command, and 126 if the command cannot be run.

Without -c, podrun chooses the container that the pod's annotation
kubectl.kubernetes.io/default-container names, or else the first.

Without --, the command begins after the pod's name, as with docker. podrun then prints
a warning, as kubectl does.

podrun streams the output of the command. With --timeout and without -i, podrun prints
the output when the command has ended. If the timeout expires, podrun kills the command.
If podrun exits for another reason, such as SIGINT, the command continues to run.`,
		Example: `  podrun exec web -- cat /etc/resolv.conf
  podrun exec -it web -- sh
  podrun exec web -c db -i -- psql < dump.sql
  podrun exec web --timeout 10s -- sh -c 'until test -e /ready; do sleep 1; done'`,
		RunE: func(c *cobra.Command, given []string) error { return runExec(a, c, f, given) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.container, "container", "c", "", "the `container` to run the command in")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "pass standard input to the command")
	flags.BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal; with -i, your terminal is connected to it")
	flags.DurationVar(&f.timeout, "timeout", 0, "time limit for the command, in whole seconds; 0 for no limit")
	flags.BoolVarP(&a.Quiet, "quiet", "q", false, "do not print warnings or the name of the container that podrun chose")
	return c
}

func runExec(a *cli.App, c *cobra.Command, f *execFlags, given []string) error {
	dash := c.ArgsLenAtDash()
	switch {
	case dash < 0 && len(given) > 1:
		return problem.UsageError(errors.New("put -- between the pod's name and the command"), "use 'podrun exec "+shellword.Quote(given[0])+" -- "+shellword.Join(given[1:])+"'")
	case len(given) == 0 || dash == 0:
		return problem.UsageError(errors.New("give a pod name and, after --, a command"), "use 'podrun exec -it NAME -- sh'; run 'podrun get' to list the pods")
	case dash < 0 || dash == len(given):
		return problem.UsageError(errors.New("give a command after the pod's name and --"), "use 'podrun exec -it "+shellword.Quote(given[0])+" -- sh' for a shell")
	case f.timeout < 0:
		return grammar.Usage(c, fmt.Errorf("--timeout=%s is negative", f.timeout))
	}
	named, err := grammar.PodRefs(given[:dash], true)
	if err != nil {
		return err
	}
	if len(named) == 2 && dash == 2 {
		return problem.UsageError(errors.New("give one pod name before --, not 2"), "for a container of the pod, use 'podrun exec "+shellword.Quote(given[0])+" -c "+shellword.Quote(given[1])+" -- "+shellword.Join(given[dash:])+"'")
	}
	if len(named) != 1 {
		return grammar.Usage(c, fmt.Errorf("give one pod name before --, not %d", len(named)))
	}
	if a.Line.DashAdded && !a.Quiet { // kubectl's deprecation
		a.PrintColored("warning: 'exec POD COMMAND' is deprecated, as in kubectl: use 'podrun " + shellword.Join(a.Line.Typed) + "'\n")
	}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: a.Streams.Err}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	namespace := a.NamespaceOrDefault("default")
	name, err := named[0].Resolve(node.Layout(), namespace)
	if err != nil {
		return err
	}
	target, err := execTarget(c.Context(), a, node, namespace, name, f.container, a.Streams.Err)
	if err != nil {
		return err
	}
	if f.tty && f.stdin && a.StdinTerminal() == nil {
		fmt.Fprintln(a.Streams.Err, cli.IgnoredTTY)
		f.tty = false
	}
	streams, restore, err := a.StreamsOf(c.Context(), f.stdin, f.tty)
	if err != nil {
		return err
	}
	// The limit of the command in the container is in whole seconds, and a part of it may have passed.
	code, err := access.Exec(a.Deadline.Unlimited, node, target, access.ExecOptions{Command: given[dash:], Timeout: f.timeout, Streams: streams})
	restore()
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Hint == "" && code == access.ExecNotFound {
		e.Hint = missingCommandHint(target, given[dash], f.stdin && f.tty)
	}
	return execCode(a, code, err)
}

// missingCommandHint returns the hint for a command that is not in the container.
func missingCommandHint(t access.Target, command string, interactive bool) string {
	flags := ""
	if interactive {
		flags = "-it "
	}
	shell := "podrun exec " + flags + t.Pod.Name + " -c " + t.Container + " -- sh"
	switch path.Base(command) {
	case "sh":
		return "the image has no shell: use 'podrun debug -it " + t.Pod.Name + " --image=busybox:1.36 --target=" + t.Container + "'"
	case "bash", "zsh", "ash", "dash", "fish", "ksh":
		return "the image has no " + path.Base(command) + ": use '" + shell + "'"
	}
	return "the image has no " + view.OneLine(command) + ": run 'podrun debug -it " + t.Pod.Name + " --image=busybox:1.36 --target=" + t.Container + "' to add a container with tools"
}

// execTarget finds a container of a pod; if the pod has several, execTarget reports which one
// it chose.
func execTarget(ctx context.Context, a *cli.App, node *run.Node, namespace, pod, container string, say io.Writer) (access.Target, error) {
	target, err := access.Find(ctx, node, namespace, pod, container)
	if err != nil {
		c, failed := a.ByContainerID(ctx, node, err, namespace, pod, container)
		if failed != nil || c == nil {
			return target, cmp.Or(failed, err)
		}
		target, err = access.Find(ctx, node, c.Namespace, c.Pod, c.Container)
	}
	if err == nil && len(target.Among) > 0 && !a.Quiet {
		fmt.Fprintf(say, "Defaulted container %q out of: %s\n", target.Container, strings.Join(target.Among, ", "))
	}
	return target, err
}

// execCode converts the exit code of the command to podrun's own.
func execCode(a *cli.App, code int, err error) error {
	switch {
	case err != nil && code != 0:
		a.PrintErrors(err)
	case err != nil:
		return err
	case code == 0:
		return nil
	default:
		// The message distinguishes the command's exit codes 120 to 125 from podrun's own.
		fmt.Fprintf(a.Streams.Err, "podrun: the command exited with %d\n", code)
	}
	return cli.ExitStatus(code)
}

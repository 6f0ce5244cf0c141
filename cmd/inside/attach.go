package inside

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/ownruntime"
)

type attachFlags struct {
	container         string
	stdin, tty, quiet bool
}

// NewAttach returns the command attach.
func NewAttach(a *cli.App) *cobra.Command {
	f := &attachFlags{}
	c := &cobra.Command{
		Use:   "attach NAME [-c CONTAINER] [-i] [-t]",
		Short: "Attach to the process of a container",
		Long: `Print the output of a running container's process until the process exits, as
'kubectl attach' does. 'podrun logs -f' also prints earlier output.

With -i, podrun passes standard input to the process; its container must have
stdin: true. With -t, podrun connects your terminal to the process; its container
must have tty: true. SIGINT, or Ctrl-C without -t, detaches: the container
continues to run.

Without -c, podrun chooses the container that the pod's annotation
kubectl.kubernetes.io/default-container names, or else the first.`,
		Example: `  podrun attach web
  podrun attach shell -it -c app`,
		RunE: func(c *cobra.Command, given []string) error { return runAttach(a, c, f, given) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.container, "container", "c", "", "the `container` to attach to")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "pass standard input to the process")
	flags.BoolVarP(&f.tty, "tty", "t", false, "connect your terminal to the terminal of the process")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print only the output of the process")
	return c
}

func runAttach(a *cli.App, c *cobra.Command, f *attachFlags, given []string) error {
	named, err := grammar.PodRefs(given, true)
	if err != nil {
		return err
	}
	if len(named) != 1 {
		return problem.UsageError(errors.New("give one pod name"), "use 'podrun attach NAME'; run 'podrun get' to list the pods")
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
	say := a.Streams.Err
	if f.quiet {
		say = io.Discard
	}
	target, err := execTarget(c.Context(), a, node, namespace, name, f.container, say)
	if err != nil {
		return err
	}
	if f.stdin && !target.Stdin {
		return grammar.Usage(c, fmt.Errorf("-i requires stdin: true in the spec of container %s", target.Container))
	}
	switch {
	case f.tty && !target.TTY:
		fmt.Fprintf(say, "warning: -t is ignored: it requires tty: true in the spec of container %s\n", target.Container)
	case f.tty && f.stdin && a.StdinTerminal() == nil:
		fmt.Fprintln(say, cli.IgnoredTTY)
	case f.stdin && target.TTY && a.StdinTerminal() != nil:
		fmt.Fprintln(say, cli.PromptHint)
	}
	streams, restore, err := a.StreamsOf(c.Context(), f.stdin, target.TTY)
	if err != nil {
		return err
	}
	defer restore()
	return access.Attach(c.Context(), node, target, streams)
}

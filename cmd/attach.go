package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/run"
)

type attachFlags struct {
	container         string
	stdin, tty, quiet bool
}

func newAttach(a *app) *cobra.Command {
	f := &attachFlags{}
	c := &cobra.Command{
		Use:   "attach NAME [-c CONTAINER] [-i] [-t]",
		Short: "Attach to the process of a container",
		Long: `Show what the process of a running container writes from now on, until it ends,
as 'kubectl attach' does. 'podrun logs -f' shows also what it wrote before.

With -i, standard input is passed to the process, if its container has stdin: true;
with -t, for one that has tty: true, from your terminal. SIGINT, or Ctrl-C without
-t, detaches: the container continues to run.

Without -c, the container is the one in the pod's annotation
kubectl.kubernetes.io/default-container, or the first.`,
		Example: `  podrun attach web
  podrun attach shell -it -c app`,
		RunE: func(c *cobra.Command, given []string) error { return a.runAttach(c, f, given) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.container, "container", "c", "", "the `container` to attach to")
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "pass standard input to the process")
	flags.BoolVarP(&f.tty, "tty", "t", false, "standard input is a terminal, and so is that of the process")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print only what the process writes")
	return c
}

func (a *app) runAttach(c *cobra.Command, f *attachFlags, given []string) error {
	named, err := podNames(given, true)
	if err != nil {
		return err
	}
	if len(named) != 1 {
		return usage(c, errors.New("give one pod name"))
	}
	engine, closeAll, err := a.engine(c.Context(), &renderer{w: a.streams.Err}, run.RuntimeReads)
	if err != nil {
		return err
	}
	defer closeAll()
	say := a.streams.Err
	if f.quiet {
		say = io.Discard
	}
	target, err := a.execTarget(c.Context(), engine, a.namespaceOr("default"), named[0], f.container, say)
	if err != nil {
		return err
	}
	if f.stdin && !target.Stdin {
		return usage(c, fmt.Errorf("-i: container %s has no stdin: true in its spec", target.Container))
	}
	switch {
	case f.tty && !target.TTY:
		fmt.Fprintf(say, "warning: -t is ignored: container %s has no tty: true in its spec\n", target.Container)
	case f.tty && f.stdin && a.stdinTerminal() == nil:
		fmt.Fprintln(say, ignoredTTY)
	case f.stdin && target.TTY && a.stdinTerminal() != nil:
		fmt.Fprintln(say, promptHint)
	}
	streams, restore, err := a.streamsOf(c.Context(), f.stdin, target.TTY)
	if err != nil {
		return err
	}
	defer restore()
	return engine.Attach(c.Context(), target, streams)
}

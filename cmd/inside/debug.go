package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/inspect"
	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

type debugFlags struct {
	container, image, target, copyTo string
	policy, profile                  string
	env                              map[string]string
	stdin, tty, quiet                bool
	attach, argumentsOnly            bool
	timeout                          time.Duration
}

// NewDebug returns the command debug.
func NewDebug(a *cli.App) *cobra.Command {
	f := &debugFlags{}
	c := &cobra.Command{
		Use:   "debug NAME --image IMAGE [--target CONTAINER] [-i] [-t] [-- COMMAND [ARG...]]",
		Short: "Add an ephemeral container to a running pod",
		Long: `Start an ephemeral container in a running pod, as 'kubectl debug' does, for example
to use the tools of another image if the pod's images have no shell. The container
shares the pod's network and, with --target, the processes of another container.
-i attaches to the container.

An ephemeral container is never restarted, cannot be changed or removed, and does
not affect the pod's phase or exit code. It ends with the pod.`,
		Example: `  podrun debug web --image busybox -it
  podrun debug web --image busybox -it --target app -- sh
  podrun debug web --image busybox --profile netadmin -- tcpdump -i any`,
		RunE: func(c *cobra.Command, given []string) error { return runDebug(a, c, f, given) },
	}
	flags := c.Flags()
	flags.StringVar(&f.image, "image", "", "the ephemeral container's `image`")
	flags.StringVarP(&f.container, "container", "c", "", "the `name` of the ephemeral container (default \"debugger-\" and a random suffix)")
	flags.StringVar(&f.target, "target", "", "share the process namespace of this `container`")
	flags.StringVar(&f.policy, "image-pull-policy", "", "when to pull the image: Always, IfNotPresent or Never")
	flags.StringToStringVar(&f.env, "env", nil, "set environment variables: `NAME=VALUE[,NAME=VALUE]`; repeatable")
	flags.StringVar(&f.profile, "profile", grammar.ProfileGeneral, "security settings: "+strings.Join(grammar.DebugProfiles, ", "))
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "keep the container's standard input open and attach to the container")
	flags.BoolVarP(&f.tty, "tty", "t", false, "give the container a terminal; requires -i")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print only the output of the container")
	flags.BoolVar(&f.attach, "attach", false, "attach to the container; the default with -i")
	flags.BoolVar(&f.argumentsOnly, "arguments-only", false, "pass the words after -- as arguments to the image's entrypoint, not as the command")
	flags.DurationVar(&f.timeout, "timeout", cli.DefaultTimeout, "time limit until the container is started; 0 for no limit")
	flags.StringVar(&f.copyTo, "copy-to", "", "not supported: podrun does not copy pods")
	return c
}

func runDebug(a *cli.App, c *cobra.Command, f *debugFlags, given []string) error {
	named, command, err := f.check(c, given)
	if err != nil {
		return err
	}
	if f.tty && a.StdinTerminal() == nil {
		f.printf(a, cli.IgnoredTTY)
		f.tty = false
	}
	debugged, err := f.ephemeral(command)
	if err != nil {
		return grammar.Usage(c, err)
	}
	r := a.Renderer()
	r.Quiet = f.quiet
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	report, err := run.Debug(c.Context(), node, run.DebugInput{
		Namespace:    a.NamespaceOrDefault("default"),
		Named:        named,
		Container:    *debugged,
		Chosen:       func(name string) { f.printf(a, "Defaulting debug container name to %s.", name) },
		Timeout:      f.timeout,
		AllowKubelet: a.AllowKubelet,
	})
	if err = errors.Join(err, report.Err()); err != nil || !f.attach {
		return err
	}
	target := report.Target
	c.SetContext(a.Deadline.Unlimited) // --timeout limits the start, and not the session
	if report.Running && target.TTY {
		if err = attachTerminal(a, c, node, target, f); err == nil || c.Context().Err() != nil {
			return err
		}
		if alive, aliveErr := access.Alive(c.Context(), node, target.ID); alive || aliveErr != nil {
			return err
		}
	}
	return followDebug(a, c, node, target)
}

// imageOr returns the value of --image, or other if the flag is not set.
func (f *debugFlags) imageOr(other string) string {
	if f.image == "" {
		return other
	}
	return shellword.Quote(f.image)
}

// check validates the command line, and returns the named pod and the arguments after --.
func (f *debugFlags) check(c *cobra.Command, given []string) (named lookup.Ref, command []string, err error) {
	words := given
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		words, command = given[:dash], given[dash:]
	}
	if len(words) > 0 && (strings.HasPrefix(words[0], "node/") || words[0] == "node") {
		return lookup.Ref{}, nil, problem.UsageError(errors.New("podrun does not debug nodes: it runs on this host"), "use a shell of this host, or 'podrun debug -it NAME --image="+f.imageOr("busybox:1.36")+"' for a pod")
	}
	refs, err := grammar.PodRefs(words, true)
	if err != nil {
		return lookup.Ref{}, nil, err
	}
	if !c.Flags().Changed("attach") {
		f.attach = f.stdin
	}
	switch {
	case f.copyTo != "":
		err = problem.UsageError(errors.New("--copy-to is not supported: podrun does not copy pods"), "apply the manifest under another name, or omit --copy-to")
	case len(refs) != 1:
		err = fmt.Errorf("give one pod name, not %d; put -- before the command", len(refs))
	case f.image == "":
		err = problem.UsageError(errors.New("give the image of the ephemeral container with --image"), "use 'podrun debug -it "+refs[0].Name+" --image=busybox:1.36'")
	case f.tty && !f.stdin:
		err = problem.UsageError(errors.New("-t requires -i"), "use -it")
	case !slices.Contains([]string{"", string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)}, f.policy):
		err = fmt.Errorf("--image-pull-policy=%s is not Always, IfNotPresent or Never", f.policy)
	case f.timeout < 0:
		err = fmt.Errorf("--timeout=%s is negative", f.timeout)
	}
	if err != nil {
		return lookup.Ref{}, nil, grammar.Usage(c, err)
	}
	return refs[0], command, nil
}

// ephemeral returns the container that the flags describe.
func (f *debugFlags) ephemeral(command []string) (*corev1.EphemeralContainer, error) {
	out := &corev1.EphemeralContainer{TargetContainerName: f.target}
	common := &out.EphemeralContainerCommon
	common.Name = f.container
	common.Image = f.image
	common.ImagePullPolicy = corev1.PullPolicy(f.policy)
	// kubectl leaves stdinOnce unset: with it, a process that reads a pipe until EOF, such as tar,
	// would wait forever.
	common.Stdin = f.stdin
	common.StdinOnce = f.stdin && !f.tty
	common.TTY = f.tty
	if common.Command = command; f.argumentsOnly {
		common.Command, common.Args = nil, command
	}
	for _, name := range slices.Sorted(maps.Keys(f.env)) {
		common.Env = append(common.Env, corev1.EnvVar{Name: name, Value: f.env[name]})
	}
	var err error
	common.SecurityContext, err = grammar.DebugProfile(f.profile)
	return out, err
}

func (f *debugFlags) printf(a *cli.App, format string, values ...any) {
	if !f.quiet {
		fmt.Fprintf(a.Streams.Err, format+"\n", values...)
	}
}

// attachTerminal attaches to a container with a terminal until the container exits.
func attachTerminal(a *cli.App, c *cobra.Command, node *run.Node, target access.Target, f *debugFlags) error {
	if f.stdin {
		f.printf(a, cli.PromptHint)
	}
	streams, restore, err := a.StreamsOf(c.Context(), f.stdin, true)
	if err != nil {
		return err
	}
	defer restore()
	return access.Attach(c.Context(), node, target, streams)
}

// followDebug prints the container's log until the container exits. Unlike the attached
// streams, the log also has the output from before podrun attached. followDebug passes on
// standard input if the container has one.
func followDebug(a *cli.App, c *cobra.Command, node *run.Node, target access.Target) error {
	logs, err := access.Logs(c.Context(), node, access.LogsRequest{Namespace: target.Pod.Namespace, Name: target.Pod.Name, Container: target.Container})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context())
	var attached sync.WaitGroup
	defer attached.Wait()
	defer cancel()
	if target.Stdin && !target.TTY {
		attached.Go(func() {
			err := access.Attach(ctx, node, target, access.Streams{In: a.Raw.In, Out: io.Discard, Err: io.Discard})
			if alive, _ := access.Alive(ctx, node, target.ID); err != nil && alive && ctx.Err() == nil {
				fmt.Fprintln(a.Streams.Err, "warning: standard input does not reach the container:", err)
			}
		})
	}
	out := podlog.Output{Stdout: a.Raw.Out, Stderr: a.Raw.Err}
	sources := (&inspect.LogsFlags{}).Sources(c.Context(), a, node, logs)
	return podlog.Mux(c.Context(), out, sources, podlog.Options{Follow: true})
}

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/serve/systemd"
)

// Streams are the process's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is the state that all commands share.
type app struct {
	// streams are for text: they escape control characters in it. raw are the same streams without
	// escaping, for data: output of containers, JSON and YAML.
	streams, raw Streams
	// rawTerminal is set while a process in a container uses the terminal.
	rawTerminal atomic.Bool

	// outTerminal and errTerminal are the streams if they are terminals, else nil.
	outTerminal, errTerminal *os.File
	color                    string // --color

	version  string
	began    time.Time // when the process began
	tracing  tracing
	ahead    readAheadState
	systemd  systemd.Manager
	settings *config.Flags

	namespace    string
	output       string
	verbose      bool
	allowKubelet bool
	// holder describes this invocation in locks, so that other podrun processes can name it
	// (holderName).
	holder string
	line   grammar.Line
	// namespaceGiven is set if -n was on the command line.
	namespaceGiven bool
	// stored returns the pods of the root directory; it is nil until the command has an engine.
	stored func() []identity.Pod
	// workflow is stdout if the runner of a GitHub workflow reads it, else nil.
	workflow *workflow.Writer
	// input is the command's input, or nil before the command has read it. Annotations take the
	// positions of objects from it.
	input *manifest.Objects
	// quiet omits events and other messages that are not results or problems (-q).
	quiet bool
	// messages are the messages that podrun writes to stderr in the background. It is nil if
	// podrun writes in the foreground.
	messages *messageQueue
	// jsonMessages is set if messages on stderr are JSON lines.
	jsonMessages bool
	// summaryDue is set until the command has printed its summary.
	summaryDue bool
	// observedAt maps the UIDs of unsupervised pods to the times at which their states were
	// observed (run.View).
	observedAt map[types.UID]time.Time
	// work is the command's work, which signals interrupt.
	work     work
	deadline deadline
	// joiner connects podrun-node to a cluster; nil in podrun.
	joiner Joiner
}

// Main runs the command line and returns its exit code. It catches signals (catchSignals); a
// second signal of the same kind ends the process. Began is the time at which the process
// started, for --trace.
func Main(parent context.Context, args []string, streams Streams, version string, began time.Time) int {
	if ownruntime.IsImageVerifier(os.Args) {
		return ownruntime.VerifyImage(parent, os.Args, streams.In, streams.Out)
	}
	a := newApp(streams)
	defer a.flushMessages()
	defer func() { a.deadline.release() }()
	ctx, stop := a.catchSignals(parent)
	defer stop()
	a.began, a.version, a.holder = began, version, "podrun"
	root := newRootFor(a, args)
	if slices.ContainsFunc(args, isCompletionRequest) {
		a.addCompletions(root)
		args = translateRequest(root, args)
	}
	given := args
	args, err := grammar.Translate(root, given)
	a.line.Typed, a.line.DashAdded = args, slices.Contains(args, "--") && !slices.Contains(given, "--")
	if err != nil {
		a.line.Typed = given
	}
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
		a.finishTrace()
	}
	if err == nil {
		return exit.OK
	}
	if code, ok := errors.AsType[exitStatus](err); ok {
		return int(code)
	}
	err = withCause(ctx, err)
	if e, ok := errors.AsType[*problem.Error](err); ok {
		a.fillPaths(ctx, root, given, e)
	}
	a.printErrors(err)
	a.summarizeFailure(err)
	return exit.Code(err)
}

// withCause adds the cause of a canceled context to an error, because it is more specific than "context canceled".
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
		return errors.Join(err, cause)
	}
	return err
}

// printErrors writes an error; if it joins several errors, it writes each of them. The format
// is text, JSON with -o json, or annotations with -o github.
func (a *app) printErrors(err error) {
	problem.Each(err, func(e error) {
		e = a.suggest(e)
		switch {
		case a.jsonMessages:
			printErrorJSON(a.streams.Err, e)
			return
		case a.workflow != nil:
			a.workflow.EndGroup()
			a.annotateError(e)
			return
		}
		var text strings.Builder
		printError(&text, e)
		a.printColored(text.String())
	})
}

// messageHues are the words with which messages begin, and their colors.
var messageHues = []struct {
	word string
	hue  view.Hue
}{{"podrun:", view.Red}, {"hint:", view.Yellow}, {"warning:", view.Yellow}}

// printColored writes lines to stderr, and colors the words of messageHues at their beginning.
func (a *app) printColored(text string) {
	s := a.screenOf(a.errTerminal)
	if !s.Color || a.rawTerminal.Load() {
		fmt.Fprint(a.streams.Err, text)
		return
	}
	for line := range strings.Lines(view.Escape(text)) {
		for _, m := range messageHues {
			if rest, ok := strings.CutPrefix(line, m.word+" "); ok {
				line = s.Paint(m.word, m.hue) + " " + rest
			}
		}
		fmt.Fprint(a.raw.Err, line)
	}
}

// newApp returns the app for one command line.
func newApp(streams Streams) *app {
	a := &app{raw: streams, systemd: systemd.Systemctl{}, deadline: deadline{release: func() {}}}
	a.outTerminal, a.errTerminal = isTerminal(streams.Out), isTerminal(streams.Err)
	a.work.speedUp = make(chan struct{})
	a.work.hurry = sync.OnceFunc(func() { close(a.work.speedUp) })
	a.streams = Streams{In: streams.In, Out: view.TextWriter{To: &a.raw.Out, Raw: &a.rawTerminal}, Err: view.TextWriter{To: &a.raw.Err, Raw: &a.rawTerminal}}
	return a
}

// Commands returns podrun's commands with their flags and help, for hack/manual. The caller
// must not execute them.
func Commands() *cobra.Command {
	root := newRoot(newApp(Streams{Out: io.Discard, Err: io.Discard}))
	root.InitDefaultHelpCmd()
	return root
}

// newRoot returns the root command with all commands.
func newRoot(a *app) *cobra.Command { return newRootFor(a, nil) }

// newRootFor returns the root command with the command that args run (onlyCommand), or with all commands.
func newRootFor(a *app, args []string) *cobra.Command {
	root := newBareRoot(a)
	if only := onlyCommand(root.PersistentFlags(), args); only != nil {
		root.AddCommand(only.make(a))
		root.CompletionOptions.DisableDefaultCmd = true
	} else {
		addAllCommands(root, a)
	}
	grammar.AddIgnoredFlags(root)
	grammar.AcceptQuiet(root)
	return root
}

// newBareRoot returns the root command without commands.
func newBareRoot(a *app) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "podrun",
		Short: "Run a Kubernetes Pod on this host, as the kubelet would, without a cluster",
		Long: `podrun runs a Kubernetes Pod on one host as the kubelet would, without a cluster,
from the same YAML that a cluster accepts.`,
		Example: `  podrun apply pod.yaml       start the pods of a manifest
  podrun logs -f web          follow the logs of the pod web
  podrun run job.yaml         run a pod to completion and exit with its exit code`,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.setDeadline(c)
			a.settings.Ctx, a.holder = c.Context(), holderName(c)
			a.namespaceGiven = c.Flags().Changed("namespace")
			if err := a.settings.SetFromEnv(); err != nil {
				return err
			}
			if err := a.startTrace(c); err != nil {
				return err
			}
			return a.loadSettings(c)
		},
		// Cobra's own check of the command's name would not cause the exit code of a usage error.
		Args: grammar.Args(grammar.KnownCommand),
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				return a.printVersion(a.versionInfo())
			}
			return c.Help()
		},
	}
	a.prepareRoot(root)
	root.Flags().BoolVar(&version, "version", false, "print the version of podrun (-v is --verbose)")
	return root
}

// prepareRoot sets the streams, the error handling and the global flags of a root command.
func (a *app) prepareRoot(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors, root.DisableAutoGenTag = true, true, true
	root.SetIn(a.streams.In)
	root.SetOut(a.streams.Out)
	root.SetErr(a.streams.Err)
	root.SetFlagErrorFunc(a.line.FlagError)
	root.SetUsageFunc(a.helpUsage)
	a.addGlobalFlags(root.PersistentFlags())
}

// addGlobalFlags adds the flags of all commands.
func (a *app) addGlobalFlags(flags *pflag.FlagSet) {
	a.settings = config.Add(flags)
	flags.StringVarP(&a.namespace, "namespace", "n", "", "`namespace` of pods (default \"default\")")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print more on stderr")
	flags.BoolVar(&a.allowKubelet, "allow-kubelet", false, "run on a host whose kubelet uses the same runtime and may remove podrun's pods")
	flags.StringVar(&a.color, "color", view.ColorAuto, "color status words: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.StringVar(&a.tracing.to, "trace", "", "print the start and duration of each phase and runtime call of the command: `text` (on stderr), json:FILE (as JSON to FILE) or svg:FILE (as a figure to FILE)")
	flags.Lookup("trace").NoOptDefVal = traceText
	a.settings.Into["color"] = func(s *nodeconfig.Settings) { s.Color = a.color }
	a.settings.Into["namespace"] = func(s *nodeconfig.Settings) { s.Namespace = a.namespace }
	a.settings.Into["verbose"] = func(s *nodeconfig.Settings) { s.Verbose = a.verbose }
	a.settings.Into["allow-kubelet"] = func(s *nodeconfig.Settings) { s.AllowKubelet = a.allowKubelet }
}

// withoutSettings are the commands that do not require valid settings. Of these commands,
// version reads the settings if it queries the runtime, and service reads them for install.
var withoutSettings = []string{"help", "completion", "options", "explain", "version", "service", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// loadSettings reads the settings before a command runs, so that every command reports an
// invalid file in the same way.
func (a *app) loadSettings(c *cobra.Command) error {
	a.settings.For = config.UseOf(c)
	command := c
	for c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	if !c.HasParent() || slices.Contains(withoutSettings, c.Name()) {
		return nil
	}
	if err := a.useSettings(c); err != nil {
		return err
	}
	return a.enter(command)
}

// useSettings reads the settings, and copies some of them to the app.
func (a *app) useSettings(c *cobra.Command) error {
	s, _, err := a.settings.Settings()
	if err != nil {
		return err
	}
	a.namespace, a.verbose, a.allowKubelet, a.color = s.Namespace, s.Verbose, s.AllowKubelet, s.Color
	if err := view.CheckColor(a.color); err != nil {
		return grammar.Usage(c, err)
	}
	return nil
}

// printError writes one error as text: one line per problem, then the hint.
func printError(w io.Writer, err error) {
	text := view.ShownText(err.Error())
	if _, ok := errors.AsType[*problem.Error](err); ok {
		for line := range strings.Lines(text) {
			fmt.Fprintln(w, "podrun:", strings.TrimRight(line, "\n"))
		}
	} else {
		fmt.Fprintln(w, "podrun:", view.Indented(text))
	}
	if hint := exit.HintFor(err); hint != "" {
		fmt.Fprintln(w, "hint:", view.Indented(hint))
	}
}

// errorLine is an error in the JSON lines on stderr.
type errorLine struct {
	Error    string       `json:"error"`
	Hint     string       `json:"hint,omitempty"`
	ExitCode int          `json:"exitCode"`
	Reason   string       `json:"reason"`
	Problems problem.List `json:"problems,omitempty"`
}

// printErrorJSON writes an error as one line of JSON.
func printErrorJSON(w io.Writer, err error) {
	code := exit.Code(err)
	line := errorLine{Error: view.ShownText(err.Error()), Hint: exit.HintFor(err), ExitCode: code, Reason: exit.Reason(code)}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		line.Problems = view.ShownProblems(e.Problems)
	}
	if data, err := json.Marshal(line); err == nil {
		fmt.Fprintf(w, "%s\n", view.EscapeJSON(data))
	}
}

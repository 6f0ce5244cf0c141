package cli

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/systemd"
)

// Joiner connects podrun-node to a cluster. Its implementation links a client of the API server, which
// podrun does not.
type Joiner interface {
	AddFlags(*pflag.FlagSet)
	// Join prepares the connection, and completes the options of the HTTPS API.
	Join(ctx context.Context, s nodeconfig.Settings, warn func(problem.List), api *serve.APIOptions) (serve.Cluster, error)
}

// Streams are the process's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// App is the state that all commands share.
type App struct {
	// Streams are for text: they escape control characters in it. Raw are the same streams without
	// escaping, for data: output of containers, JSON and YAML.
	Streams, Raw Streams
	// rawTerminal is set while a process in a container uses the terminal.
	rawTerminal atomic.Bool

	// OutTerminal and ErrTerminal are the streams if they are terminals, else nil.
	OutTerminal, ErrTerminal *os.File
	color                    string // --color

	Version  string
	Began    time.Time // when the process began
	tracing  tracing
	ahead    readAheadState
	Systemd  systemd.Manager
	Settings *config.Flags

	Namespace    string
	Output       string
	Verbose      bool
	AllowKubelet bool
	// Holder describes this invocation in locks, so that other podrun processes can name it
	// (holderName).
	Holder string
	Line   grammar.Line
	// NamespaceGiven is set if -n was on the command line.
	NamespaceGiven bool
	// stored returns the pods of the root directory; it is nil until the command has a node.
	stored func() []identity.Pod
	// Workflow is stdout if the runner of a GitHub workflow reads it, else nil.
	Workflow *workflow.Writer
	// Input is the command's input, or nil before the command has read it. Annotations take the
	// positions of objects from it.
	Input *manifest.Objects
	// Quiet omits events and other messages that are not results or problems (-q).
	Quiet bool
	// messages are the messages that podrun writes to stderr in the background. It is nil if
	// podrun writes in the foreground.
	messages *messageQueue
	// JSONMessages is set if messages on stderr are JSON lines.
	JSONMessages bool
	// SummaryDue is set until the command has printed its summary.
	SummaryDue bool
	// ObservedAt maps the UIDs of unsupervised pods to the times at which their states were
	// observed (run.View).
	ObservedAt map[types.UID]time.Time
	// Work is the command's work, which signals interrupt.
	Work     work
	Deadline deadline
	// Joiner connects podrun-node to a cluster; nil in podrun.
	Joiner Joiner
}

// New returns the App of one command line.
func New(streams Streams) *App {
	a := &App{Raw: streams, Systemd: systemd.Systemctl{}, Deadline: deadline{Release: func() {}}}
	a.OutTerminal, a.ErrTerminal = isTerminal(streams.Out), isTerminal(streams.Err)
	a.Work.SpeedUp = make(chan struct{})
	a.Work.hurry = sync.OnceFunc(func() { close(a.Work.SpeedUp) })
	a.Streams = Streams{
		In:  streams.In,
		Out: view.TextWriter{To: &a.Raw.Out, Raw: &a.rawTerminal},
		Err: view.TextWriter{To: &a.Raw.Err, Raw: &a.rawTerminal},
	}
	return a
}

// AddGlobalFlags adds the flags of all commands.
func (a *App) AddGlobalFlags(flags *pflag.FlagSet) {
	a.Settings = config.Add(flags)
	flags.StringVarP(&a.Namespace, "namespace", "n", "", "`namespace` of pods (default \"default\")")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "print more on stderr")
	flags.BoolVar(&a.AllowKubelet, "allow-kubelet", false, "run on a host whose kubelet uses the same runtime and may remove podrun's pods")
	flags.StringVar(&a.color, "color", view.ColorAuto, "color status words: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.StringVar(&a.tracing.to, "trace", "", "print the start and duration of each phase and runtime call of the command: `text` (on stderr), json:FILE (as JSON to FILE) or svg:FILE (as a figure to FILE)")
	flags.Lookup("trace").NoOptDefVal = traceText
	a.Settings.Into["color"] = func(s *nodeconfig.Settings) { s.Color = a.color }
	a.Settings.Into["namespace"] = func(s *nodeconfig.Settings) { s.Namespace = a.Namespace }
	a.Settings.Into["verbose"] = func(s *nodeconfig.Settings) { s.Verbose = a.Verbose }
	a.Settings.Into["allow-kubelet"] = func(s *nodeconfig.Settings) { s.AllowKubelet = a.AllowKubelet }
}

// UseSettings reads the settings, and copies some of them to the App.
func (a *App) UseSettings(c *cobra.Command) error {
	s, _, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	a.Namespace = s.Namespace
	a.Verbose = s.Verbose
	a.AllowKubelet = s.AllowKubelet
	a.color = s.Color
	if err := view.CheckColor(a.color); err != nil {
		return grammar.Usage(c, err)
	}
	return nil
}

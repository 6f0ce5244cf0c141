package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/heap"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/systemd"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	validate      string
	ignoreKinds   bool
	skipKinds     []string
	strictCluster bool
	relist        time.Duration
	remote        serve.RemoteOptions
	sourceVerify  string
	api           apiFlags
	shutdown      shutdownFlags
}

// NewServe returns the command serve.
func NewServe(a *cli.App) *cobra.Command {
	f := &serveFlags{}
	c := &cobra.Command{
		Use:   "serve [DIR|FILE|URL...]",
		Short: "Supervise the pods of manifest directories and URLs",
		Long: `Keep the pods of manifest directories running: when a file is added, changed or
removed, start, update or delete its pods. serve restarts containers according to
restartPolicy, with the kubelet's back-off; it runs probes and hooks, enforces
activeDeadlineSeconds and rotates logs. It also supervises pods that 'podrun apply'
started, but not pods that 'podrun run' started.

serve reads the directories, manifests and URLs on the command line. If there are none,
it reads the 'sources' in the settings file, or /etc/podrun/manifests by default. They
contain Pods, workloads and Services, and the ConfigMaps, Secrets, claims and classes
that the pods refer to. serve runs Jobs and CronJobs as their controllers do. It treats
a manifest (*.yaml, *.yml, *.json) or an https URL like a directory with one file, and an
artifact in a registry (oci://HOST/REPO:TAG) like a directory. If it cannot read one of
them, it keeps its pods.

Containers keep running when serve exits for any reason, and the next serve resumes
their supervision. On SIGHUP, which 'podrun serve reload' sends, serve reads
the settings file and the directories again.

With --secrets=memory, Secrets are lost at a reboot. For pods from directories and URLs,
serve reads the Secrets again; pods from a URL wait until the URL can be read. If
'podrun apply' started a pod with Secrets, apply it again.`,
		Example: `  podrun serve
  podrun serve /etc/podrun/manifests /srv/site/manifests
  podrun serve https://pods.example/site-1.yaml --source-header-file /etc/podrun/header
  podrun service install --now`,
		RunE: func(c *cobra.Command, dirs []string) error { return runServe(a, c, f, dirs) },
	}
	c.Flags().StringVar(&f.validate, "validate", string(manifest.Strict), "how to handle unknown and duplicate fields: strict, warn or ignore")
	c.Flags().BoolVar(&f.ignoreKinds, "ignore-unknown-kinds", false, "ignore objects of kinds that podrun does not use")
	c.Flags().StringSliceVar(&f.skipKinds, "skip-kinds", nil, "skip objects of these `kinds` (NetworkPolicy,Certificate), or all custom resources (custom); Ingress, RBAC and similar kinds are always skipped")
	c.Flags().BoolVar(&f.strictCluster, "strict-cluster-fields", false, "refuse pods with fields that only a cluster supports, instead of dropping the fields")
	c.Flags().DurationVar(&f.remote.Every, "http-check-frequency", 20*time.Second, "how often to read each URL")
	c.Flags().StringVar(&f.remote.HeaderFile, "source-header-file", "", "`file` with HTTP headers for requests to URLs, such as \"Authorization: Bearer TOKEN\", one per line; podrun reads it at each request")
	c.Flags().StringVar(&f.sourceVerify, "source-verify", "", "read only sources that are signed by a key in this `file` (ssh-keygen(1), ALLOWED SIGNERS); podrun reads it at each pass")
	c.Flags().DurationVar(&f.relist, "file-check-frequency", 20*time.Second, "how often to read the directories even if they do not change")
	f.api.add(c.Flags())
	f.shutdown.add(c.Flags(), 0, 0)
	c.Flags().StringVarP(&a.Output, "output", "o", "", "json prints events as JSON lines")
	a.AddQuiet(c)
	c.AddCommand(newServeReload(a))
	return c
}

// runServe supervises pods until a signal arrives, which is not an error.
func runServe(a *cli.App, c *cobra.Command, f *serveFlags, dirs []string) error {
	if err := cli.CheckOutput(a.Output, "json"); err != nil {
		return err
	}
	if f.relist < time.Second {
		return grammar.Usage(c, errors.New("--file-check-frequency must be at least 1s"))
	}
	if f.remote.Every < time.Second {
		return grammar.Usage(c, errors.New("--http-check-frequency must be at least 1s"))
	}
	if err := errors.Join(f.api.check(a.Joiner != nil), f.shutdown.check(c.Flags())); err != nil {
		return grammar.Usage(c, err)
	}
	if err := checkSources(dirs); err != nil {
		return err
	}
	if err := a.RequireRoot(c.Context(), a.Renderer()); err != nil {
		return err
	}
	signal.Reset(syscall.SIGHUP) // SIGHUP ends other commands, but reloads the settings of this one
	notifier, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	// Plugins that podrun executes must not inherit the variable. Unsetenv cannot fail.
	_ = os.Unsetenv("NOTIFY_SOCKET")
	a.QueueMessages()
	r := a.Renderer()
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	f.shutdown.override(&settings)
	a.WarnAbout(r, notes)
	keepSettings(a, r)
	heap.Supervise()
	r.SeveralPods = true
	s := &server{app: a, renderer: r, notifier: notifier, shutdown: f.shutdown, runtime: a.Runtime(r, settings)}
	s.runtime.Replaces = true
	s.setFault(a.Settings.Fault)
	api := f.api.options(settings)
	cluster, err := join(a, c, r, settings, &api)
	if err != nil {
		return err
	}
	client, err := s.connect(c.Context(), &settings, api)
	if err != nil || client == nil {
		return err
	}
	defer client.Close()
	s.client = client
	node := s.node(settings)
	o := s.options(c.Context(), f, settings, dirs)
	o.API, o.Cluster = api, cluster
	err = serve.Run(c.Context(), node, o)
	s.warnNotSent(notifier.Stopping())
	if _, ended := errors.AsType[exit.SignalError](context.Cause(c.Context())); ended && err == nil {
		return nil
	}
	return err
}

// checkSources rejects paths that serve would never read. It accepts a path that does not exist, because a
// directory may appear there later.
func checkSources(paths []string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode().IsRegular() && serve.IsManifestName(filepath.Base(path)) {
			continue
		}
		return problem.UsageError(fmt.Errorf("%q is neither a directory nor a manifest", path),
			"serve reads manifests whose names end in .yaml, .yml or .json and do not begin with a dot; to apply another file once, run 'podrun apply -f FILE'")
	}
	return nil
}

// options returns the options of the supervisor.
func (s *server) options(ctx context.Context, f *serveFlags, settings nodeconfig.Settings, dirs []string) serve.Options {
	fromSettings := len(dirs) == 0
	if fromSettings {
		dirs = settings.SourcesOrDefault()
	}
	shown := make([]string, len(dirs))
	for i, dir := range dirs {
		shown[i] = serve.Shown(dir)
	}
	heartbeat := 10 * time.Second
	if watchdog, watched := systemd.WatchdogInterval(os.Getenv, os.Getpid()); watched {
		heartbeat = min(heartbeat, watchdog/2)
	}
	return serve.Options{
		Dirs:         dirs,
		SettingsDirs: fromSettings,
		Claims:       settings.Claims,
		Relist:       f.relist,
		Remote:       f.remote,
		SourceVerify: f.sourceVerify,
		AllowKubelet: settings.AllowKubelet,
		Manifest: manifest.Options{
			Services:            true,
			HonourReplicas:      settings.Replicas == nodeconfig.ReplicasHonour,
			Namespace:           settings.Namespace,
			Validate:            manifest.Validate(f.validate),
			IgnoreUnknownKinds:  f.ignoreKinds,
			SkipKinds:           f.skipKinds,
			StrictClusterFields: f.strictCluster,
			Suffix:              run.RandomSuffix,
		},
		SettingsFault: func() string { return *s.fault.Load() },
		Reload:        s.reloads(ctx),
		Heartbeat:     heartbeat,
		Runtime:       func() serve.RuntimeState { return s.runtimeState(ctx) },
		Ready: func() {
			s.warnNotSent(s.notifier.Ready())
			s.renderer.Note("supervising the pods of " + strings.Join(shown, ", "))
		},
		Progress: func(summary string) {
			s.warnNotSent(s.notifier.Status(summary))
			s.warnNotSent(s.notifier.Watchdog())
		},
	}
}

// server is the state of a supervisor that a reload keeps.
type server struct {
	app      *cli.App
	renderer *cli.Renderer
	notifier *systemd.Notifier
	client   *cri.Client
	shutdown shutdownFlags
	runtime  *ownruntime.Runtime
	fault    atomic.Pointer[string] // serve.Options.SettingsFault
}

// setFault sets why podrun does not use the content of the settings file; "" if it does.
func (s *server) setFault(fault string) {
	if fault != "" {
		fault += "; podrun uses the last valid settings until the file is corrected and 'podrun serve reload' has run"
	}
	s.fault.Store(&fault)
}

// warnNotSent warns that podrun could not notify systemd. It warns once, because the notifier
// returns an error only once.
func (s *server) warnNotSent(err error) {
	if err != nil {
		s.renderer.Warn(problem.List{problem.WarningOf(err)})
	}
}

// node returns the state that pods with these settings share.
func (s *server) node(settings nodeconfig.Settings) *run.Node {
	return &run.Node{Client: s.client, Settings: settings, Emit: s.renderer.Event, Warn: s.renderer.Warn,
		Command: s.app.Holder, Invocation: run.NewInvocation(), RepairImages: s.runtime.ImageRepair(s.client.Endpoint())}
}

// reloads reads the settings after each SIGHUP and sends them. If they are invalid, it reports
// the error, and the previous settings remain in effect.
func (s *server) reloads(ctx context.Context) <-chan *run.Node {
	out := make(chan *run.Node)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			s.warnNotSent(s.notifier.Reloading())
			settings, notes, err := s.app.Settings.Reload()
			if err != nil {
				s.renderer.Warn(problem.List{problem.WarningOf(err)})
				s.setFault(problem.Of(err)[0].String())
			} else {
				s.setFault("")
				keepSettings(s.app, s.renderer)
				s.shutdown.override(&settings)
				s.app.WarnAbout(s.renderer, notes)
				select {
				case out <- s.node(settings):
				case <-ctx.Done():
					return
				}
			}
			s.warnNotSent(s.notifier.Ready())
		}
	}()
	return out
}

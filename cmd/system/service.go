package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/systemd"
)

// serviceFlags are the flags of the service commands.
type serviceFlags struct {
	prefix, binary    string
	force, now, print bool
	shutdown          shutdownFlags
}

// NewService returns the command service.
func NewService(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Run 'podrun serve' as a systemd service",
		Long: `Install, remove and show podrun.service. With this unit, systemd starts 'podrun
serve' at boot, restarts it when it exits, and restarts it if it hangs. Containers
keep running while the service is stopped, restarted or upgraded.`,
		Args: grammar.Args(grammar.KnownCommand),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newServiceInstall(a), newServiceUninstall(a), newServiceStatus(a))
	return c
}

func newServiceInstall(a *cli.App) *cobra.Command {
	f := &serviceFlags{}
	c := &cobra.Command{
		Use:   "install [DIR|URL...]",
		Short: "Write and enable podrun.service",
		Long: `Write /etc/systemd/system/podrun.service, create the manifest directories that do not
exist (mode 0750), and enable the service. The service supervises the
directories and URLs on the command line. If there are none, it supervises the
'sources' in the settings file, or /etc/podrun/manifests by default. Global flags on
the command line become flags of the service; PODRUN_ variables do not.

Before the host shuts down, pods have --shutdown-grace-period to terminate, unless
the settings file sets other periods. If logind's InhibitDelayMaxSec is shorter, a
drop-in in /etc/systemd/logind.conf.d increases it.

If /etc/podrun/config.yaml does not exist, install writes one with
'seccompDefault: true', so that containers without a seccomp profile get the
runtime's default profile. All commands read this file. Existing pods keep the
settings that they were started with. install does not write the file if --config or
--seccomp-default is given.

Run install again to change the unit. A unit that podrun did not write is replaced
only with --force.`,
		Example: `  podrun service install --now
  podrun service install --now https://pods.example/site-1.yaml
  podrun service install --print
  podrun service install --prefix /mnt/image --binary /usr/bin/podrun`,
		RunE: func(c *cobra.Command, dirs []string) error { return installService(a, c, f, dirs) },
	}
	f.add(c.Flags())
	c.Flags().StringVar(&f.binary, "binary", "", "`path` of podrun in the unit (default: this program)")
	c.Flags().BoolVar(&f.now, "now", false, "also start the service, or restart it if it is running")
	f.shutdown.add(c.Flags(), 30*time.Second, 10*time.Second)
	c.Flags().BoolVar(&f.print, "print", false, "print the unit and change nothing")
	return c
}

func (f *serviceFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.prefix, "prefix", "", "`directory` with the file system of another host, such as an image: change the files there, without calling systemctl")
	set.BoolVar(&f.force, "force", false, "replace or remove a unit that podrun did not write")
}

func installService(a *cli.App, c *cobra.Command, f *serviceFlags, dirs []string) error {
	if f.now && f.prefix != "" {
		return grammar.Usage(c, errors.New("--now starts the service on this host, but --prefix selects the file system of another host: use only one of the two flags"))
	}
	if err := f.shutdown.check(c.Flags()); err != nil {
		return grammar.Usage(c, err)
	}
	settings, _, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	o := systemd.UnitOptions{Binary: f.binary, Flags: append(config.Arguments(a.Settings.Given), f.shutdown.arguments(&settings)...)}
	if o.Binary == "" {
		if o.Binary, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	for _, source := range dirs {
		if serve.IsRemote(source) {
			err = serve.CheckRemote(source)
		} else {
			source, err = filepath.Abs(source)
		}
		if err != nil {
			return grammar.Usage(c, fmt.Errorf("source %s: %w", serve.Shown(source), err))
		}
		o.Sources = append(o.Sources, source)
	}
	unit, err := systemd.Unit(o)
	if err != nil {
		return grammar.Usage(c, err)
	}
	if f.print {
		_, err := a.Streams.Out.Write(unit)
		return err
	}
	service, err := service(a, f)
	if err != nil {
		return err
	}
	warnEnvironment(a)
	sources := o.Sources
	if len(sources) == 0 {
		sources = settings.SourcesOrDefault()
	}
	options := systemd.InstallOptions{Unit: unit, Dirs: slices.DeleteFunc(slices.Clone(sources), serve.IsRemote), Force: f.force, Now: f.now, Delay: settings.ShutdownDelay()}
	if !a.Settings.AnyGiven("config", "seccomp-default") {
		options.Settings = config.NewSettings()
		options.Created = func() { fmt.Fprintln(a.Streams.Out, config.SettingsCreated) }
	}
	if err := service.Install(c.Context(), options); err != nil {
		return err
	}
	state := "enabled; 'systemctl start " + systemd.UnitName + "' starts it"
	switch {
	case f.now:
		state = "enabled and started"
	case f.prefix != "":
		state = "enabled in " + f.prefix
	}
	fmt.Fprintf(a.Streams.Out, "%s %s\n", systemd.UnitName, state)
	return nil
}

// service returns the service on this host, which requires root, or, with --prefix, the
// service in another root file system.
func service(a *cli.App, f *serviceFlags) (systemd.Service, error) {
	if f.prefix != "" {
		prefix, err := filepath.Abs(f.prefix)
		return systemd.Service{Prefix: prefix}, err
	}
	if err := cli.RequireRoot(); err != nil {
		return systemd.Service{}, err
	}
	return systemd.Service{Manager: a.Systemd}, nil
}

// warnEnvironment warns about variables that the service does not inherit.
func warnEnvironment(a *cli.App) {
	r := &cli.Renderer{W: a.Streams.Err}
	for _, flag := range a.Settings.FromEnv {
		if flag.Value.String() == flag.DefValue {
			continue
		}
		r.Warn(problem.List{{Object: config.EnvName(flag.Name), Message: "podrun.service does not inherit this variable", Hint: "use --" + flag.Name + " or the settings file", Warning: true}})
	}
}

func newServiceUninstall(a *cli.App) *cobra.Command {
	f := &serviceFlags{}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop, disable and remove podrun.service",
		Long: `Stop and disable podrun.service and remove its unit. Pods keep running without
supervision. uninstall keeps manifests. It removes /etc/podrun/config.yaml only if the
file has not changed since 'podrun service install' wrote it.`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			service, err := service(a, f)
			if err != nil {
				return err
			}
			removed, err := service.Uninstall(c.Context(), systemd.UninstallOptions{Force: f.force, Settings: config.NewSettings(),
				Empty: []string{nodeconfig.DefaultSource, filepath.Dir(nodeconfig.DefaultSource)}})
			if err != nil {
				return err
			}
			if !removed {
				fmt.Fprintf(a.Streams.Out, "%s is not installed\n", systemd.UnitName)
				return nil
			}
			if service.Exists(nodeconfig.DefaultFile) {
				fmt.Fprintf(a.Streams.Out, "%s is kept\n", nodeconfig.DefaultFile)
			}
			fmt.Fprintf(a.Streams.Out, "%s removed; its pods keep running: run 'podrun delete all --all -A' to delete them\n", systemd.UnitName)
			return nil
		},
	}
	f.add(c.Flags())
	return c
}

func newServiceStatus(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of podrun.service",
		Long: `Show the state of podrun.service that systemd reports. The exit code is 0 in every
state; -o json prints the state in "load", "active" and "sub".`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
				return err
			}
			state, err := systemd.Service{Manager: a.Systemd}.Status(c.Context())
			if err != nil {
				return err
			}
			if a.Output != "" {
				return view.PrintData(a.Raw.Out, a.Output, state)
			}
			fmt.Fprint(a.Streams.Out, state)
			return nil
		},
	}
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json or yaml")
	return c
}

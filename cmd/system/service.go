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
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/systemd"
)

// serviceFlags are the flags of the service commands.
type serviceFlags struct {
	prefix, binary    string
	force, now, print bool
	user              bool
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

With --user, an ordinary user installs the service in the user's systemd: the unit is
in ~/.config/systemd/user, and the settings and manifests are in ~/.config/podrun.

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
	set.BoolVar(&f.user, "user", false, "the service of the user who runs this command, in the user's systemd")
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
	o := systemd.UnitOptions{User: f.user, Binary: f.binary, Flags: config.Arguments(a.Settings.Given)}
	if !f.user { // only root can delay a shutdown of the host
		o.Flags = append(o.Flags, f.shutdown.arguments(&settings)...)
	}
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
		if !f.user {
			settings.ManifestDir = "" // an ordinary user may prepare the files of another host
		}
		sources = settings.SourcesOrDefault()
	}
	options := systemd.InstallOptions{
		Unit:  unit,
		Dirs:  slices.DeleteFunc(slices.Clone(sources), serve.IsRemote),
		Force: f.force,
		Now:   f.now,
		Delay: settings.ShutdownDelay(),
	}
	if !a.Settings.AnyGiven("config", "seccomp-default") {
		options.Settings = config.NewSettings(f.user)
		options.Created = func() { fmt.Fprintln(a.Streams.Out, options.Settings.Path+config.SettingsCreated) }
	}
	if err := service.Install(c.Context(), options); err != nil {
		return err
	}
	state := "enabled; '" + f.systemctl() + " start " + systemd.UnitName + "' starts it"
	switch {
	case f.now:
		state = "enabled and started"
	case f.prefix != "":
		state = "enabled in " + f.prefix
	}
	fmt.Fprintf(a.Streams.Out, "%s %s\n", systemd.UnitName, state)
	if f.user && !rootless.Lingers() {
		fmt.Fprintln(a.Streams.Out, "run 'loginctl enable-linger' to start the service at boot, and to keep the pods running after a logout")
	}
	return nil
}

// systemctl returns systemctl with the option for the user's units.
func (f *serviceFlags) systemctl() string {
	if f.user {
		return "systemctl --user"
	}
	return "systemctl"
}

// service returns the service on this host, which requires root, or, with --prefix, the
// service in another root file system.
func service(a *cli.App, f *serviceFlags) (systemd.Service, error) {
	switch {
	case f.user && f.prefix != "":
		return systemd.Service{}, &problem.Error{
			Kind:   problem.Usage,
			Object: "--user",
			Err:    errors.New("contradicts --prefix, which selects the file system of another host"),
			Hint:   "use only one of the two flags",
		}
	case f.prefix != "":
		prefix, err := filepath.Abs(f.prefix)
		return systemd.Service{Prefix: prefix}, err
	case f.user && !rootless.User():
		return systemd.Service{}, &problem.Error{
			Kind:   problem.Usage,
			Object: "--user",
			Err:    errors.New("is for an ordinary user, but podrun runs as root"),
			Hint:   "omit --user",
		}
	case f.user:
		return systemd.Service{Manager: userManager(a), UserDir: filepath.Join(filepath.Dir(rootless.ConfigDir()), "systemd", "user")}, nil
	case rootless.User():
		return systemd.Service{}, &problem.Error{
			Kind:   problem.Runtime,
			Object: systemd.UnitName,
			Err:    errors.New("only root can change the services of this host"),
			Hint:   "use --user for a service of user " + rootless.UserName() + ", or use sudo",
		}
	}
	return systemd.Service{Manager: a.Systemd}, nil
}

// userManager returns the systemd of the user who runs podrun.
func userManager(a *cli.App) systemd.Manager {
	if s, ok := a.Systemd.(systemd.Systemctl); ok {
		s.User = true
		return s
	}
	return a.Systemd
}

// warnEnvironment warns about variables that the service does not inherit.
func warnEnvironment(a *cli.App) {
	r := &cli.Renderer{W: a.Streams.Err}
	for _, flag := range a.Settings.FromEnv {
		if flag.Value.String() == flag.DefValue {
			continue
		}
		r.Warn(problem.List{{
			Object:  config.EnvName(flag.Name),
			Message: "podrun.service does not inherit this variable",
			Hint:    "use --" + flag.Name + " or the settings file",
			Warning: true,
		}})
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
			settings, manifests := config.NewSettings(f.user), nodeconfig.DefaultSource
			if f.user {
				manifests = nodeconfig.Default().ManifestDir
			}
			removed, err := service.Uninstall(c.Context(), systemd.UninstallOptions{
				Force:    f.force,
				Settings: settings,
				Empty:    []string{manifests, filepath.Dir(manifests)},
			})
			if err != nil {
				return err
			}
			if !removed {
				fmt.Fprintf(a.Streams.Out, "%s is not installed\n", systemd.UnitName)
				return nil
			}
			if service.Exists(settings.Path) {
				fmt.Fprintf(a.Streams.Out, "%s is kept\n", settings.Path)
			}
			fmt.Fprintf(a.Streams.Out, "%s removed; its pods keep running: run 'podrun delete all --all -A' to delete them\n", systemd.UnitName)
			return nil
		},
	}
	f.add(c.Flags())
	return c
}

func newServiceStatus(a *cli.App) *cobra.Command {
	var user bool
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
			service := systemd.Service{Manager: a.Systemd}
			if user {
				service.Manager = userManager(a)
			}
			state, err := service.Status(c.Context())
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
	c.Flags().BoolVar(&user, "user", false, "the service of the user who runs this command, in the user's systemd")
	return c
}

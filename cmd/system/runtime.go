package system

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewRuntime returns the command runtime.
func NewRuntime(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "runtime",
		Short: "Show, start, upgrade and remove the embedded container runtime",
		Long: `Show which container runtime the pods in podrun's root directory (--root-dir) use, and
manage the embedded runtime.

podrun uses the container runtime of this host if it has one. On a host without one,
podrun-bundle unpacks its embedded runtime into the root directory and starts it for
the pods of this root directory only. The first command that needs a runtime records
which one it uses; --runtime can change the choice only while no pods exist.`,
		Args: grammar.Args(grammar.KnownCommand),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRuntimeStatus(a), newRuntimeUp(a), newRuntimeDown(a), newRuntimeLogs(a), newRuntimeUpgrade(a))
	return c
}

// withRuntime calls do with the container runtime, without a node.
func withRuntime(a *cli.App, do func(*ownruntime.Runtime) error) error {
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	r := a.Renderer()
	a.WarnAbout(r, notes)
	return do(a.Runtime(r, settings))
}

func newRuntimeStatus(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which container runtime is used, and its state",
		Args:  grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
				return err
			}
			return withRuntime(a, func(rt *ownruntime.Runtime) error {
				s, err := rt.Status(c.Context())
				if err != nil {
					return err
				}
				return printRuntime(a, s)
			})
		},
	}
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json or yaml")
	return c
}

// printRuntime prints one property per line.
func printRuntime(a *cli.App, s ownruntime.Status) error {
	if a.Output != "" {
		return view.PrintData(a.Raw.Out, a.Output, s)
	}
	kind, state := s.Kind, s.State
	if !s.Recorded {
		kind += " (not used yet)"
	}
	if s.PID != 0 {
		state += fmt.Sprintf(" (process %d)", s.PID)
	}
	digest := s.Digest
	if s.Upgradable() {
		digest += " (run 'podrun runtime upgrade' to change to " + s.Archive + ")"
	}
	var d view.Aligned
	for _, line := range []struct{ name, value string }{{"Runtime", kind}, {"Endpoint", s.Endpoint}, {"State", state}, {"Unit", s.Unit},
		{"Problem", s.Problem},
		{"Archive", digest}, {"Directory", s.Dir}, {"Log", s.Log}, {"Replaced", replacedText(s.Replaced)},
		{"Rootless", rootlessText(s.Rootless)}} {
		if line.value != "" {
			d.Row(line.name+":", view.OneLine(line.value))
		}
	}
	return d.Print(a.Raw.Out, view.Screen{})
}

// rootlessText describes podrun-rootless in one line; "" if it does not run.
func rootlessText(r *ownruntime.RootlessStatus) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("running (process %d)", r.PID)
	if r.Former {
		text += " of the former archive " + r.Archive + " until 'podrun runtime down'"
	}
	if r.Cgroup != "" {
		text += "; cgroups of pods in " + r.Cgroup
	} else {
		text += "; no cgroups: " + r.NoCgroups
	}
	if r.Metadata {
		text += "; pods can connect to the metadata service (allowMetadata)"
	}
	return text
}

// replacedText describes a replaced store in one line; "" if there is none.
func replacedText(r *ownruntime.Replacement) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s; the damaged store is %s (%d MB)", r.Time.Format(time.RFC3339), r.Reason, r.Directory, (r.Bytes+(1<<20)-1)>>20)
}

func newRuntimeUp(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start the embedded runtime, as apply, run and serve do",
		Args:  grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return withRuntime(a, func(rt *ownruntime.Runtime) error {
				endpoint, err := rt.Up(c.Context())
				if err == nil {
					fmt.Fprintln(a.Streams.Out, endpoint)
				}
				return err
			})
		},
	}
}

func newRuntimeDown(a *cli.App) *cobra.Command {
	var force bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "down",
		Short: "Stop the embedded runtime and remove everything that it created",
		Long: `Stop the embedded runtime and remove everything that it created on this host: its
processes, mounts, network interface, firewall rules, cgroups, images and
directories. down also removes the record that selects this runtime. It keeps the
archives that you have put into <root-dir>/images.

down fails while pods exist. With --force, down kills and removes them first, as
'podrun delete --all --all-namespaces --force' does, even if the runtime does not
start.`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return withRuntime(a, func(rt *ownruntime.Runtime) error { return runtimeDown(c.Context(), a, rt, force) })
		},
	}
	c.Flags().BoolVar(&force, "force", false, "kill and remove pods first")
	c.Flags().DurationVar(&timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	return c
}

func runtimeDown(ctx context.Context, a *cli.App, rt *ownruntime.Runtime, force bool) error {
	r := a.Renderer()
	in := run.RemoveRuntimeInput{
		Runtime: rt,
		Force:   force,
		Working: func(pods []identity.Pod) { r.SeveralPods = len(pods) > 1 },
		Open: func(ctx context.Context) (*run.Node, func(), error) {
			return a.OpenNodeAsRoot(ctx, r, ownruntime.Starts)
		},
	}
	_, err := run.RemoveRuntime(ctx, in)
	if err == nil {
		fmt.Fprintln(a.Streams.Out, "runtime removed")
	}
	return err
}

func newRuntimeLogs(a *cli.App) *cobra.Command {
	var follow bool
	var tail int
	c := &cobra.Command{
		Use:   "logs",
		Short: "Print the log of the embedded runtime",
		Args:  grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return withRuntime(a, func(rt *ownruntime.Runtime) error {
				err := rt.Logs(c.Context(), a.Streams.Out, tail, follow)
				if err == nil && follow {
					err = context.Cause(c.Context())
				}
				return err
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines until interrupted")
	c.Flags().IntVar(&tail, "tail", -1, "number of `lines` from the end; -1 for all")
	return c
}

func newRuntimeUpgrade(a *cli.App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "upgrade",
		Short: "Replace the running embedded runtime with the one that this podrun includes",
		Long: `Stop the embedded runtime and start the version that this podrun includes.
Containers keep running. If the new version does not start, upgrade starts the old
one again.

Other commands never change the version: even after a crash or a reboot, they start
the version that ran before.

Unless --force is set, upgrade refuses a version of containerd that is older than
the one in use, because the older one may not be able to read the data.`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return withRuntime(a, func(rt *ownruntime.Runtime) error {
				changed, err := rt.Upgrade(c.Context(), force)
				if err != nil {
					return err
				}
				outcome := "unchanged"
				if changed {
					outcome = "upgraded"
				}
				fmt.Fprintln(a.Streams.Out, "runtime", outcome)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also start an older version of containerd")
	return c
}

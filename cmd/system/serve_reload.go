package system

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve"
)

// newServeReload returns the command of ExecReload= in podrun.service: systemd has no
// option for a reload by a signal that all supported versions know, and kill(1) is not
// installed on every host.
func newServeReload(a *cli.App) *cobra.Command {
	var pid int
	c := &cobra.Command{
		Use:   "reload",
		Short: "Make the running 'podrun serve' read its settings and sources again",
		Long: `Send SIGHUP to the 'podrun serve' of the root directory (--root-dir): it reads the
settings file and the manifest directories again. If the settings are invalid, it
prints a warning and keeps the previous settings.

To supervise a manifest directory with the name reload, run 'podrun serve ./reload'.`,
		Example: `  podrun serve reload
  systemctl reload podrun`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("pid") && pid < 2 { // 0 and negative values are process groups, 1 is init
				return grammar.Usage(c, fmt.Errorf("--pid=%d is not the process ID of a supervisor", pid))
			}
			if pid == 0 {
				settings, _, err := a.Settings.Settings()
				if err != nil {
					return err
				}
				if pid = serve.Supervisor(settings.Layout()); pid == 0 {
					return &problem.Error{Kind: problem.Failed, Object: "podrun serve", Err: errors.New("is not running for the root directory " + settings.RootDir),
						Hint: "start it: 'podrun serve' or 'podrun service install --now'"}
				}
			}
			if err := unix.Kill(pid, unix.SIGHUP); err != nil {
				return &problem.Error{Kind: problem.Failed, Object: "podrun serve", Op: fmt.Sprintf("send SIGHUP to process %d", pid), Err: err}
			}
			return nil
		},
	}
	c.Flags().IntVar(&pid, "pid", 0, "process `ID` of the supervisor (default: the process that has locked the root directory)")
	return c
}

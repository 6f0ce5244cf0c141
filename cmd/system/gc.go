package system

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewGC returns the command gc.
func NewGC(a *cli.App) *cobra.Command {
	var o run.GCOptions
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove leftovers of podrun processes that were killed",
		Long: `Find and remove leftovers of podrun processes that were killed:

  - pods whose removal was interrupted
  - pods of 'podrun run' without --keep
  - sandboxes without a checkpoint, and containers without a sandbox
  - container records that podrun restored in containerd to remove a container
  - cgroups of deleted pods
  - firewall rules and addresses of deleted sandboxes
  - links to deleted logs, and locks

podrun removes only objects that are marked as created by podrun. If another object
looks like a leftover, gc lists it with the reason why podrun keeps it.`,
		Example: `  podrun gc --dry-run
  podrun gc -o json`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return runGC(a, c, o) },
	}
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "print what gc would remove, and remove nothing")
	c.Flags().BoolVar(&o.AllRootDirs, "all-root-dirs", false, "also remove leftovers of podrun processes with other root directories")
	c.Flags().DurationVar(&o.Timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json or yaml")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not list the leftovers")
	return c
}

func runGC(a *cli.App, c *cobra.Command, o run.GCOptions) error {
	if err := cli.CheckOutput(a.Output, "json", "yaml"); err != nil {
		return err
	}
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), a.Renderer(), ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	found, err := run.GC(c.Context(), node, o)
	if found == nil && err != nil {
		return err
	}
	var printErr error
	if a.Output != "" {
		printErr = view.PrintData(a.Raw.Out, a.Output, append([]run.Leftover{}, found...))
	} else if !a.Quiet {
		printErr = printLeftovers(a.Streams.Out, found)
	}
	if err != nil {
		return err
	}
	return printErr
}

// printLeftovers writes one line per leftover.
func printLeftovers(w io.Writer, found []run.Leftover) error {
	for _, l := range found {
		what := "left over"
		switch {
		case l.Kept:
			what = "kept"
		case l.Error != "":
			what = "not removed"
		case l.Removed:
			what = "removed"
		}
		if _, err := fmt.Fprintf(w, "%s/%s %s: %s\n", l.Kind, l.Name, what, l.Why); err != nil {
			return err
		}
	}
	return nil
}

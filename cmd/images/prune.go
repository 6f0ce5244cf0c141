package images

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/ownruntime"
)

type pruneFlags struct{ all, force, dryRun bool }

func newImagePrune(a *cli.App) *cobra.Command {
	f := &pruneFlags{}
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove unused images",
		Long: `Remove unused images without a tag (dangling images). With --all, also remove unused
images that have a tag. An image is unused if neither a container, nor a podrun pod, nor
the runtime itself uses it. On a terminal, podrun lists the images and asks before it
removes them.`,
		Example: `  podrun image prune
  podrun image prune --all --dry-run
  podrun image prune --all --force`,
		Args: grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			use := ownruntime.Acts
			if f.dryRun {
				use = ownruntime.Reads
			}
			return withNode(c.Context(), a, use, func(ctx context.Context, node *run.Node) error { return pruneImages(ctx, a, node, f) })
		},
	}
	c.Flags().BoolVarP(&f.all, "all", "a", false, "all unused images, not only those without a tag")
	c.Flags().BoolVarP(&f.force, "force", "f", false, "do not ask for confirmation")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the images and remove nothing")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not print the names of the images")
	return c
}

func pruneImages(ctx context.Context, a *cli.App, node *run.Node, f *pruneFlags) error {
	found := false
	report, err := imagestore.Prune(ctx, node, imagestore.PruneInput{
		All:    f.all,
		DryRun: f.dryRun,
		Confirm: func(unused []imagestore.Image) (bool, error) {
			found = true
			return confirmPrune(ctx, a, unused, f.force)
		},
	})
	if f.dryRun || !a.Quiet {
		printImageLines(a, report)
	}
	switch {
	case a.Quiet:
	case len(report) > 0 && !f.dryRun:
		fmt.Fprintf(a.Streams.Err, "%s freed\n", megabytes(report.Size()))
	case err != nil || found || len(report) > 0:
	case f.all:
		fmt.Fprintln(a.Streams.Err, "no unused images")
	default:
		fmt.Fprintln(a.Streams.Err, "no unused images without a tag (--all also removes tagged ones)")
	}
	return err
}

// confirmPrune lists the images and asks whether to remove them. It returns true without
// asking if force is set, or if stdin or stderr is not a terminal.
func confirmPrune(ctx context.Context, a *cli.App, images []imagestore.Image, force bool) (bool, error) {
	in := a.StdinTerminal()
	if force || in == nil || a.ErrTerminal == nil {
		return true, nil
	}
	total := uint64(0)
	for _, i := range images {
		total += i.Size
		fmt.Fprintf(a.Streams.Err, "%s  %s\n", view.OneLine(i.Title()), megabytes(i.Size))
	}
	fmt.Fprintf(a.Streams.Err, "Remove %d images, %s? [y/N] ", len(images), megabytes(total))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // at the end of the input, line is empty, which means no
		answer <- line
	}()
	select {
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

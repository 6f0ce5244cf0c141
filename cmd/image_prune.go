package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/ownruntime"
)

type pruneFlags struct{ all, force, dryRun bool }

func newImagePrune(a *app) *cobra.Command {
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
			return a.withEngine(c.Context(), use, func(ctx context.Context, e *run.Node) error { return a.pruneImages(ctx, e, f) })
		},
	}
	c.Flags().BoolVarP(&f.all, "all", "a", false, "all unused images, not only those without a tag")
	c.Flags().BoolVarP(&f.force, "force", "f", false, "do not ask for confirmation")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the images and remove nothing")
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "do not print the names of the images")
	return c
}

func (a *app) pruneImages(ctx context.Context, e *run.Node, f *pruneFlags) error {
	unused, err := imagestore.Unused(ctx, e, f.all)
	if err != nil {
		return err
	}
	if len(unused) == 0 {
		text := "no unused images without a tag (--all also removes tagged ones)"
		if f.all {
			text = "no unused images"
		}
		if !a.quiet {
			fmt.Fprintln(a.streams.Err, text)
		}
		return nil
	}
	if f.dryRun {
		for _, i := range unused {
			fmt.Fprintf(a.streams.Out, "image/%s would be removed (dry run)\n", view.OneLine(i.Title()))
		}
		return nil
	}
	if confirmed, err := a.confirmPrune(ctx, unused, f.force); err != nil || !confirmed {
		return err
	}
	gone, err := imagestore.Prune(ctx, e, unused)
	for _, i := range gone {
		if a.quiet {
			break
		}
		fmt.Fprintf(a.streams.Out, "image/%s removed\n", view.OneLine(i.Title()))
	}
	if len(gone) > 0 && !a.quiet {
		_, printed := fmt.Fprintf(a.streams.Err, "%s freed\n", megabytes(sizeOfImages(gone)))
		err = errors.Join(err, printed)
	}
	return err
}

func sizeOfImages(images []imagestore.Image) (total uint64) {
	for _, i := range images {
		total += i.Size
	}
	return total
}

// confirmPrune lists the images and asks whether to remove them. It returns true without
// asking if force is set, or if stdin or stderr is not a terminal.
func (a *app) confirmPrune(ctx context.Context, images []imagestore.Image, force bool) (bool, error) {
	in := a.stdinTerminal()
	if force || in == nil || a.errTerminal == nil {
		return true, nil
	}
	for _, i := range images {
		fmt.Fprintf(a.streams.Err, "%s  %s\n", view.OneLine(i.Title()), megabytes(i.Size))
	}
	fmt.Fprintf(a.streams.Err, "Remove %d images, %s? [y/N] ", len(images), megabytes(sizeOfImages(images)))
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

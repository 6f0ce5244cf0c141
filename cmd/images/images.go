package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewImage returns the command image.
func NewImage(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Show, pull and remove the runtime's images",
		Args:  grammar.Args(grammar.KnownCommand),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newImageList(a), newImagePull(a), newImageRemove(a), newImagePrune(a), newImageLoad(a), newImageSave(a))
	return c
}

// withNode creates a node and calls do with it.
func withNode(ctx context.Context, a *cli.App, use ownruntime.Use, do func(context.Context, *run.Node) error) error {
	r := a.MessageRenderer()
	r.Json = a.JSONMessages
	node, closeAll, err := a.OpenNode(ctx, r, use)
	if err != nil {
		return err
	}
	defer closeAll()
	return do(ctx, node)
}

type imageListFlags struct {
	format  string
	noTrunc bool
	digests bool
}

func newImageList(a *cli.App) *cobra.Command {
	f := &imageListFlags{}
	c := &cobra.Command{
		Use:     "ls [REPOSITORY[:TAG]]",
		Aliases: []string{"list"},
		Short:   "Show the images on this host",
		Long: `Show the images on this host, or only those with the given name, which may contain the
wildcards * and ?.

With --format, podrun prints each name of an image with a Go template, as 'docker
images' does. The fields are {{.Repository}}, {{.Tag}}, {{.ID}}, {{.Digest}} and
{{.Size}}; "table TEMPLATE" adds headings, and json prints JSON objects.`,
		Example: `  podrun image ls
  podrun image ls 'registry.example.com/*'
  podrun image ls --format 'table {{.Repository}}\t{{.Tag}}\t{{.Size}}'`,
		Args: grammar.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, patterns []string) error { return runImageList(a, c, f, patterns) },
	}
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as json, yaml or name")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "print only the IDs")
	c.Flags().StringVar(&f.format, "format", "", "Go `template` with docker's fields, json, or table TEMPLATE")
	c.Flags().BoolVar(&f.noTrunc, "no-trunc", false, "print complete IDs")
	c.Flags().BoolVar(&f.digests, "digests", false, "print the names with a digest, by which a pod can use an image, too")
	return c
}

func runImageList(a *cli.App, c *cobra.Command, f *imageListFlags, patterns []string) error {
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	var format *view.ImageFormat
	switch {
	case f.format != "" && a.Output != "":
		return grammar.Usage(c, errors.New("--format and -o cannot be used together"))
	case f.format != "":
		var err error
		if format, err = view.ParseImageFormat(f.format); err != nil {
			return err
		}
	}
	return withNode(c.Context(), a, ownruntime.Reads, func(ctx context.Context, node *run.Node) error {
		images, err := imagestore.List(ctx, node)
		if err == nil && len(patterns) > 0 {
			images, err = view.SelectImages(images, patterns[0])
		}
		switch {
		case err != nil:
			return err
		case format != nil:
			return format.Print(a.Streams.Out, view.ImageRows(images, f.noTrunc))
		}
		return printImages(a, images, f)
	})
}

func printImages(a *cli.App, images []imagestore.Image, f *imageListFlags) error {
	switch a.Output {
	case "json", "yaml":
		return view.PrintData(a.Raw.Out, a.Output, images)
	case "name":
		for _, i := range images {
			fmt.Fprintln(a.Streams.Out, view.OneLine(i.Title()))
		}
		return nil
	}
	if a.Quiet {
		for _, i := range images {
			fmt.Fprintln(a.Streams.Out, view.OneLine(view.ShownID(i.ID, f.noTrunc)))
		}
		return nil
	}
	if len(images) == 0 {
		return nil
	}
	var table view.Table
	table.Head("IMAGE", "ID", "SIZE", "IN USE")
	for _, i := range images {
		names := i.Names
		if f.digests || len(names) == 0 {
			names = slices.Concat(names, i.Digests)
		}
		if len(names) == 0 {
			names = []string{view.NoName}
		}
		for _, name := range names {
			table.Row("", name, view.ShownID(i.ID, f.noTrunc), megabytes(i.Size), strconv.FormatBool(i.InUse))
		}
	}
	return table.Print(a.Streams.Out)
}

// megabytes formats a size as registries do.
func megabytes(bytes uint64) string { return fmt.Sprintf("%.1fMB", float64(bytes)/1e6) }

func newImagePull(a *cli.App) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images in parallel, using this host's credentials",
		Args:  grammar.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, names []string) error {
			if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
				return err
			}
			a.JSONMessages = a.Output == "json"
			return withNode(c.Context(), a, ownruntime.Starts, func(ctx context.Context, node *run.Node) error {
				report, err := imagestore.Pull(ctx, node, imagestore.PullInput{Names: names, Timeout: timeout})
				return errors.Join(err, report.Err(), printPulled(a, report.Done()))
			})
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print the pulled images as json, yaml or name")
	a.AddQuiet(c)
	return c
}

// pulledImage describes a pulled image in the output.
type pulledImage struct {
	Image string `json:"image"` // the name as requested
	ID    string `json:"id"`
	Size  uint64 `json:"size"` // bytes
}

// printPulled prints the pulled images to stdout if -o is set; otherwise they were
// printed on stderr.
func printPulled(a *cli.App, pulled imagestore.Report) error {
	out := []pulledImage{}
	for _, e := range pulled {
		if a.Output == "name" {
			fmt.Fprintln(a.Streams.Out, view.OneLine(e.Name))
		}
		out = append(out, pulledImage{Image: e.Name, ID: e.ID, Size: e.Size})
	}
	if a.Output == "json" || a.Output == "yaml" {
		return view.PrintData(a.Raw.Out, a.Output, out)
	}
	return nil
}

// printImageLines prints what an operation has done to each image.
func printImageLines(a *cli.App, done imagestore.Report) {
	for _, e := range done {
		fmt.Fprintf(a.Streams.Out, "image/%s %s\n", view.OneLine(e.Name), e.Outcome)
	}
}

func newImageRemove(a *cli.App) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "rm IMAGE...",
		Short: "Remove names of images, and images with their last name",
		Long: `Remove names of images. podrun removes an image with its last name. IMAGE is a name or
the ID of an image that has one name. podrun prints what it removed.

podrun refuses names that pods use, and the last name of an image that containers use.
With --force, it removes them, and an ID removes all names. A runtime other than
containerd can only remove an image with all its names, which also requires --force.`,
		Example: `  podrun image rm busybox:1.36
  podrun image rm --force 6fd955f66c23`,
		Args: grammar.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, names []string) error {
			return withNode(c.Context(), a, ownruntime.Acts, func(ctx context.Context, node *run.Node) error {
				report, err := imagestore.Remove(ctx, node, imagestore.RemoveInput{Images: names, Force: force})
				if !a.Quiet {
					printImageLines(a, report.Done())
				}
				return errors.Join(report.Err(), err)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "also remove names and images that are in use, and all names of an ID")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not print the names of the images")
	return c
}

func newImageLoad(a *cli.App) *cobra.Command {
	var input string
	c := &cobra.Command{
		Use:   "load FILE",
		Short: "Load the images of an archive into containerd",
		Long: `Load the images of an archive into containerd under the names in the archive. The
archive is the output of 'docker save' or a tar file of an OCI layout; both may be
compressed with gzip. A multi-platform image must include this host's platform. FILE is
a path, or - for stdin.

podrun refuses names with the digest of another image, and the names of the runtime's
sandbox image. If a name referred to another image before, podrun prints a warning.

podrun also loads the images of an OCI layout under NAME@DIGEST.

All pods may use a loaded image, even if podrun pulled the same image with credentials
before.`,
		Example: `  podrun image load busybox.tar
  docker save busybox:1.36 | podrun image load -`,
		RunE: func(c *cobra.Command, named []string) error {
			if input != "" {
				named = append(named, input)
			}
			if len(named) == 0 && cli.IsRedirected(a.Streams.In) {
				named = []string{"-"}
			}
			if len(named) != 1 {
				return problem.UsageError(fmt.Errorf("specify one archive, not %d", len(named)), "use 'podrun image load FILE', or 'docker save IMAGE | podrun image load -'")
			}
			in := a.Streams.In
			if named[0] != "-" {
				f, err := openWithin(c.Context(), named[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return withNode(c.Context(), a, ownruntime.Starts, func(ctx context.Context, node *run.Node) error {
				report, err := imagestore.Load(ctx, node, in)
				if !a.Quiet {
					printImageLines(a, report)
				}
				return err
			})
		},
	}
	c.Flags().StringVarP(&input, "input", "i", "", "`file` with the archive, like the argument")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not print the names of the images")
	return c
}

// openWithin opens a file for reading. If the file is a FIFO without a writer, openWithin
// fails when ctx ends.
func openWithin(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(path)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			e := &problem.Error{Kind: problem.Usage, Err: o.err}
			if errors.Is(o.err, fs.ErrNotExist) {
				e.Hint = "check the path; 'docker save IMAGE -o IMAGE.tar' and 'podman save' write such an archive"
			}
			return nil, e
		}
		return o.file, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("open %s: %w", path, context.Cause(ctx))
	}
}

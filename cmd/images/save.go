package images

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/ownruntime"
)

func newImageSave(a *cli.App) *cobra.Command {
	var output, format string
	c := &cobra.Command{
		Use:   "save IMAGE...",
		Short: "Save images of containerd to an archive",
		Long: `Save images of containerd to an archive. The archive is an OCI layout and also a
docker-archive, so that 'podrun image load', 'docker load', 'podman load', 'ctr images
import' and skopeo read it. It has the digests of the images, and the platforms that
containerd has pulled. IMAGE is a name with a tag or a digest, or an ID, which stands
for all names of the image.

Without -o, podrun writes the archive to stdout, but not to a terminal.`,
		Example: `  podrun image save busybox:1.36 -o busybox.tar
  podrun image save busybox:1.36 nginx:1.27 | gzip > images.tar.gz
  podrun image save busybox:1.36 | ssh HOST podrun image load -`,
		Args: grammar.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, names []string) error {
			switch format {
			case "", "docker-archive", "oci-archive":
			default:
				return problem.UsageError(errors.New("--format must be docker-archive or oci-archive"), "omit --format: the archive has both formats")
			}
			if toStdout := output == "" || output == "-"; toStdout && a.OutTerminal != nil {
				return problem.UsageError(errors.New("podrun does not write an archive to a terminal"), "use -o FILE, or redirect stdout")
			} else if toStdout {
				return saveImages(a, c, names, a.Raw.Out)
			}
			return writeWhole(output, func(to io.Writer) error { return saveImages(a, c, names, to) })
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "`file` to write, instead of stdout")
	c.Flags().StringVar(&format, "format", "", "docker-archive or oci-archive: the archive is both")
	return c
}

func saveImages(a *cli.App, c *cobra.Command, names []string, to io.Writer) error {
	return withNode(c.Context(), a, ownruntime.Starts, func(ctx context.Context, node *run.Node) error {
		_, err := imagestore.Save(ctx, node, imagestore.SaveInput{Images: names, To: to})
		return err
	})
}

// writeWhole replaces a file with what write writes. If write fails, the file remains as it was. It writes directly
// to a path that is not a regular file, such as /dev/stdout.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return &problem.Error{Kind: problem.Usage, Err: err}
		}
		return errors.Join(write(file), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return &problem.Error{Kind: problem.Usage, Err: err, Hint: "check the path of -o"}
	}
	err = errors.Join(write(file), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

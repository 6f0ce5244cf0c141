package imagestore

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
)

// SaveInput is the input of Save.
type SaveInput struct {
	Images []string // names with a tag or a digest, or IDs, which stand for all names of an image
	To     io.Writer
}

// Save writes images of containerd to an archive (archive.Save). The report has one entry for each name in the
// archive, and none if there is an error: the archive is then incomplete. The error is of kind Refused if the runtime is not containerd,
// Image if an image or a part of it is not found, and Runtime if the runtime does not respond.
func Save(ctx context.Context, n *node.Node, in SaveInput) (Report, error) {
	version, err := n.Client.Version(ctx)
	if err != nil {
		return nil, imageError("", "read the runtime's version", err)
	}
	conn := n.Client.Images.Conn()
	if version.RuntimeName != "containerd" || conn == nil {
		return nil, notContainerd(version.RuntimeName, "save images only from containerd", saveElsewhere)
	}
	var full []string
	for _, name := range in.Images {
		found, err := n.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: name})
		if err != nil {
			return nil, imageError(name, "get its status", err)
		}
		image := Image{Names: found.GetRepoTags(), Digests: found.GetRepoDigests()}
		of := []string{imagepull.FullName(name)}
		if !slices.Contains(image.allNames(), of[0]) {
			if of = image.Names; len(of) == 0 {
				of = image.Digests
			}
		}
		if len(of) == 0 {
			return nil, &problem.Error{Kind: problem.Image, Object: "image " + name,
				Err:  errors.New("not found, or it has no name"),
				Hint: "run 'podrun image ls' to list the images"}
		}
		for _, n := range of {
			if !slices.Contains(full, n) {
				full = append(full, n)
			}
		}
	}
	err = archive.Save(ctx, conn, full, in.To)
	switch code := status.Code(err); {
	case err == nil:
		return named(full, Saved), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case code == codes.Unimplemented:
		return nil, notContainerd("a runtime without its image services", "save images only from containerd", saveElsewhere)
	case code != codes.Unknown:
		return nil, imageError("", "save", err)
	}
	return nil, err
}

// saveElsewhere is the hint for CRI-O.
const saveElsewhere = "use 'skopeo copy containers-storage:NAME docker-archive:FILE'"

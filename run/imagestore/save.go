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

// SaveImages writes images of containerd to an archive (archive.Save). A name is a name with a tag or a digest, or
// an ID, which stands for all names of the image. The error is of kind Refused if the runtime is not containerd,
// Image if an image or a part of it is not found, and Runtime if the runtime does not respond.
func Save(ctx context.Context, n *node.Node, names []string, to io.Writer) error {
	version, err := n.Client.Version(ctx)
	if err != nil {
		return imageError("", "read the runtime's version", err)
	}
	conn := n.Client.ImageConn()
	if version.RuntimeName != "containerd" || conn == nil {
		return notContainerd(version.RuntimeName, "save images only from containerd", saveElsewhere)
	}
	var full []string
	for _, name := range names {
		found, err := n.Client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name})
		if err != nil {
			return imageError(name, "get its status", err)
		}
		image := Image{Names: found.GetRepoTags(), Digests: found.GetRepoDigests()}
		of := []string{imagepull.FullName(name)}
		if !slices.Contains(image.allNames(), of[0]) {
			if of = image.Names; len(of) == 0 {
				of = image.Digests
			}
		}
		if len(of) == 0 {
			return &problem.Error{Kind: problem.Image, Object: "image " + name, Err: errors.New("not found, or it has no name"), Hint: "run 'podrun image ls' to list the images"}
		}
		for _, n := range of {
			if !slices.Contains(full, n) {
				full = append(full, n)
			}
		}
	}
	err = archive.Save(ctx, conn, full, to)
	switch code := status.Code(err); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code == codes.Unimplemented:
		return notContainerd("a runtime without its image services", "save images only from containerd", saveElsewhere)
	case code != codes.Unknown:
		return imageError("", "save", err)
	}
	return err
}

// saveElsewhere is the hint for CRI-O.
const saveElsewhere = "use 'skopeo copy containers-storage:NAME docker-archive:FILE'"

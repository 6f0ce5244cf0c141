package archive

import (
	"context"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Untag removes a full name of an image from containerd. The image remains, with its other names and its ID. It is
// not an error if containerd does not have the name. The CRI has no such call: its RemoveImage removes all names of
// an image. The error is a gRPC status (Unimplemented if the runtime is not containerd).
func Untag(ctx context.Context, conn grpc.ClientConnInterface, name string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	_, err := imagesapi.NewImagesClient(conn).Delete(ctx, &imagesapi.DeleteImageRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

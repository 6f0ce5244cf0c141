package critest

import (
	"context"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// imageService implements the call of containerd's own service for names of images that removes a name.
type imageService struct {
	imagesapi.UnimplementedImagesServer
	rt *Runtime
}

// Delete removes a name. The CRI lists the image with its other names.
func (s imageService) Delete(ctx context.Context, r *imagesapi.DeleteImageRequest) (*emptypb.Empty, error) {
	if err := inNamespace(ctx); err != nil {
		return nil, err
	}
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	if s.rt.images[r.Name] == nil {
		return nil, status.Errorf(codes.NotFound, "image %q: not found", r.Name)
	}
	delete(s.rt.images, r.Name)
	return &emptypb.Empty{}, nil
}

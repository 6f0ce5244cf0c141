package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Images calls the CRI's ImageService.
type Images struct {
	Service runtimeapi.ImageServiceClient
	conn    grpc.ClientConnInterface // nil for a client from New
	timeout time.Duration
}

// Conn returns the connection to the image service. Callers use it for services on the same
// socket that do not belong to the CRI. It returns nil for a client from New.
func (i Images) Conn() grpc.ClientConnInterface { return i.conn }

// Status returns the status of an image, or nil if the image is not present.
func (i Images) Status(ctx context.Context, image *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
	resp, err := within(ctx, i.timeout, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return i.Service.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image})
	})
	return resp.GetImage(), err
}

// Details returns the status of an image with its configuration. If the image is not present,
// the response contains no image.
func (i Images) Details(ctx context.Context, image *runtimeapi.ImageSpec) (*runtimeapi.ImageStatusResponse, error) {
	return within(ctx, i.timeout, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return i.Service.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image, Verbose: true})
	})
}

// ImageUser returns the user that runs an image's containers: a number, which is 0 if the
// image specifies no user, or a name.
func ImageUser(image *runtimeapi.Image) (uid *int64, name string) {
	switch {
	case image.GetUid() != nil:
		number := image.GetUid().GetValue()
		return &number, ""
	case image.GetUsername() != "":
		return nil, image.GetUsername()
	}
	return new(int64), ""
}

// FsInfo returns the file systems that store the images.
func (i Images) FsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return within(ctx, i.timeout, func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
		return i.Service.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	})
}

// Pull pulls an image and returns the runtime's reference to it. Only ctx limits its duration,
// because the caller determines the time limit of a pull.
func (i Images) Pull(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	resp, err := i.Service.PullImage(ctx, &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox})
	return resp.GetImageRef(), err
}

// List lists all images of the runtime.
func (i Images) List(ctx context.Context) ([]*runtimeapi.Image, error) {
	resp, err := within(ctx, i.timeout, func(ctx context.Context) (*runtimeapi.ListImagesResponse, error) {
		return i.Service.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	})
	return resp.GetImages(), err
}

// Remove removes an image with all its names. It is not an error if the image does not exist.
func (i Images) Remove(ctx context.Context, id string) error {
	_, err := within(ctx, i.timeout, func(ctx context.Context) (*runtimeapi.RemoveImageResponse, error) {
		return i.Service.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	})
	return err
}

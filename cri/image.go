package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageStatus returns the status of an image, or nil if the image is not present.
func (c *Client) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return c.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image})
	})
	return resp.GetImage(), err
}

// ImageDetails returns the status of an image with its configuration. If the image is not present,
// the response contains no image.
func (c *Client) ImageDetails(ctx context.Context, image *runtimeapi.ImageSpec) (*runtimeapi.ImageStatusResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return c.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image, Verbose: true})
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

// ImageFsInfo returns the file systems that store the images.
func (c *Client) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
		return c.Images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	})
}

// PullImage pulls an image and returns the runtime's reference to it. Only ctx limits its duration,
// because the caller determines the time limit of a pull.
func (c *Client) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	resp, err := c.Images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox})
	return resp.GetImageRef(), err
}

// ListImages lists all images of the runtime.
func (c *Client) ListImages(ctx context.Context) ([]*runtimeapi.Image, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListImagesResponse, error) {
		return c.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	})
	return resp.GetImages(), err
}

// RemoveImage removes an image with all its names. It is not an error if the image does not exist.
func (c *Client) RemoveImage(ctx context.Context, id string) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RemoveImageResponse, error) {
		return c.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	})
	return err
}

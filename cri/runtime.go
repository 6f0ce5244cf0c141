package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version asks the runtime who it is.
func (c *Client) Version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
		return c.Runtime.Version(ctx, &runtimeapi.VersionRequest{Version: "0.1.0"})
	})
}

// Status asks for the runtime's conditions, handlers and features. Verbose adds
// its configuration, the sandbox image among it.
func (c *Client) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
		return c.Runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: verbose})
	})
}

// RuntimeConfig asks which cgroup driver the runtime uses; nil where the
// runtime does not implement the call (containerd before 2.0).
func (c *Client) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
		return c.Runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	return resp, err
}

// ignoreNotFound drops the error of stopping or removing what is gone.
func ignoreNotFound(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

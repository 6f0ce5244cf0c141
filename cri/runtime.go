package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version returns the runtime's name and versions.
func (c *Client) Version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
		return c.Runtime.Version(ctx, &runtimeapi.VersionRequest{Version: "0.1.0"})
	})
}

// Status returns the runtime's conditions, handlers and features. If verbose is true, the result
// includes the runtime's configuration, which contains the name of the sandbox image.
func (c *Client) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
		return c.Runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: verbose})
	})
}

// RuntimeConfig returns the cgroup driver of the runtime. It returns nil if the runtime does
// not implement the call (containerd before 2.0).
func (c *Client) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
		return c.Runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	return resp, err
}

// podStatsSafe is the first CRI-O version in which ListPodSandboxStats cannot cause a crash.
var podStatsSafe = version.MustParseGeneric("1.37.0")

// ListPodSandboxStats returns the resource usage of all pods, including network usage. It returns
// nil if the runtime does not implement the call. It also returns nil if the call fails because of
// a single sandbox: containerd 1.6 returns Unknown while one sandbox of the host is not ready, and
// NotFound while it creates one. It does not call CRI-O before 1.37, which crashes if a container
// exits during the call (cri-o/cri-o#10206).
func (c *Client) ListPodSandboxStats(ctx context.Context) ([]*runtimeapi.PodSandboxStats, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	if have, err := version.ParseGeneric(v.GetRuntimeVersion()); v.GetRuntimeName() == "cri-o" && (err != nil || have.LessThan(podStatsSafe)) {
		return nil, nil
	}
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListPodSandboxStatsResponse, error) {
		return c.Runtime.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	})
	switch status.Code(err) {
	case codes.Unimplemented, codes.Unknown, codes.NotFound:
		return nil, nil
	}
	return resp.GetStats(), err
}

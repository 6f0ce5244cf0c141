package cri

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer creates a container in a sandbox and returns its ID. Both
// configs must be those the sandbox was made with.
func (c *Client) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.CreateContainerResponse, error) {
		return c.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: sandboxID, Config: config, SandboxConfig: sandbox,
		})
	})
	return resp.GetContainerId(), err
}

// StartContainer starts a created container.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.StartContainerResponse, error) {
		return c.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	})
	return err
}

// StopContainer stops a container and kills it after grace, in whole seconds; 0
// kills immediately. A missing container is not an error. The timeout is the
// client's plus the grace period.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return unbusy(ctx, func() error {
		return c.settled(ctx, func() error {
			_, err := within(ctx, c.timeout+grace, func(ctx context.Context) (*runtimeapi.StopContainerResponse, error) {
				return c.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(grace / time.Second)})
			})
			return err
		}, c.listedContainer(id))
	})
}

// RemoveContainer removes a container, by force if it is running: it is killed first,
// since CRI-O would send it TERM and wait as long as the call may take. A missing
// container is not an error. While the runtime is busy with it, the call is repeated.
// A task of it that containerd does not remove is deleted first.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	return unbusy(ctx, func() error {
		if st, err := c.ContainerStatus(ctx, id, false); err == nil && st.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			_ = c.StopContainer(ctx, id, 0) // what fails is left to the removal, which then reports it
		}
		return c.removal(ctx, func() error {
			return c.settled(ctx, func() error {
				_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RemoveContainerResponse, error) {
					return c.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
				})
				return err
			}, c.listedContainer(id))
		}, func(task string) (bool, error) { return task == id, nil })
	})
}

// ListContainers lists the containers that carry all of the labels.
func (c *Client) ListContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
			Filter: &runtimeapi.ContainerFilter{LabelSelector: labels},
		})
	})
	return resp.GetContainers(), err
}

// ContainerStatus reads one container. Verbose adds the runtime's own info,
// the process ID among it.
func (c *Client) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return c.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	})
}

// UpdateContainerResources gives a running container other resources.
func (c *Client) UpdateContainerResources(ctx context.Context, id string, r *runtimeapi.LinuxContainerResources) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.UpdateContainerResourcesResponse, error) {
		return c.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: r})
	})
	return err
}

// ListContainerStats reads what all containers use. It asks again where the runtime
// could not be determined: containerd fails for all while one is being removed.
func (c *Client) ListContainerStats(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
	for tries := 3; ; tries-- {
		resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListContainerStatsResponse, error) {
			return c.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
		})
		if code := status.Code(err); code != codes.Unknown && code != codes.NotFound || tries == 1 || ctx.Err() != nil {
			return resp.GetStats(), err
		}
	}
}

// ContainerStats reads what a container uses.
func (c *Client) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ContainerStatsResponse, error) {
		return c.Runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	})
	return resp.GetStats(), err
}

// ExecSync runs a command in a container and waits for it. A timeout of 0 is
// none, as in the kubelet's hooks; then only ctx bounds the call.
func (c *Client) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (*runtimeapi.ExecSyncResponse, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+c.timeout)
		defer cancel()
	}
	return c.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(timeout / time.Second)})
}

// ReopenContainerLog has the runtime open a running container's log again, after it
// was renamed: the runtime creates the file if it is missing. It is an error for a
// container that does not run.
func (c *Client) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ReopenContainerLogResponse, error) {
		return c.Runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	})
	return err
}

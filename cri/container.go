package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer creates a container in a sandbox and returns its ID. The sandbox config must
// equal the one with which the sandbox was created.
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

// StopContainer stops a container, and kills it if it has not exited after grace, which is rounded
// to whole seconds. If grace is 0, StopContainer kills the container immediately. It is not an
// error if the container does not exist. The timeout is the client's plus the grace period.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return retryBusy(ctx, func() error {
		return c.Containerd.settled(ctx, func() error {
			_, err := within(ctx, c.timeout+grace, func(ctx context.Context) (*runtimeapi.StopContainerResponse, error) {
				return c.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(grace / time.Second)})
			})
			return err
		}, c.listedContainer(id))
	})
}

// RemoveContainer removes a container. It first kills a running container: CRI-O would send TERM to
// it and wait until the call's deadline. It is not an error if the container does not exist. While
// the runtime is busy with the container, RemoveContainer repeats the call. If containerd refuses
// because the container still has a task that was never started, RemoveContainer deletes the task
// first.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	return retryBusy(ctx, func() error {
		if st, err := c.ContainerStatus(ctx, id, false); err == nil && st.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			// If the stop fails, the removal below also fails and reports an error.
			_ = c.StopContainer(ctx, id, 0)
		}
		return c.Containerd.removal(ctx, func() error {
			return c.Containerd.settled(ctx, func() error {
				_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RemoveContainerResponse, error) {
					return c.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
				})
				return err
			}, c.listedContainer(id))
		}, func(task string) (bool, error) { return task == id, nil })
	})
}

// ListContainers lists the containers that have all of the labels.
func (c *Client) ListContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
			Filter: &runtimeapi.ContainerFilter{LabelSelector: labels},
		})
	})
	return resp.GetContainers(), err
}

// ContainerStatus returns the status of one container. If verbose is true, the response includes
// the runtime's own info, such as the process ID.
func (c *Client) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return c.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	})
}

// UpdateContainerResources changes the resources of a running container.
func (c *Client) UpdateContainerResources(ctx context.Context, id string, r *runtimeapi.LinuxContainerResources) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.UpdateContainerResourcesResponse, error) {
		return c.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: r})
	})
	return err
}

// ListContainerStats reads the usage of all containers. It repeats the call after Unknown or
// NotFound, because containerd's call fails for all containers while one of them is being removed.
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

// WithoutUsage removes the usage of CPU, memory, swap and devices from the statistics of containers without cgroups,
// for which the runtime reports the usage of another group. It keeps the usage of disks.
func WithoutUsage(list []*runtimeapi.ContainerStats) {
	for _, s := range list {
		s.Cpu, s.Memory, s.Swap, s.Io = nil, nil, nil, nil
	}
}

// WithoutPodUsage is WithoutUsage for pods. It keeps the usage of networks.
func WithoutPodUsage(list []*runtimeapi.PodSandboxStats) {
	for _, s := range list {
		if l := s.Linux; l != nil {
			l.Cpu, l.Memory, l.Io, l.Process = nil, nil, nil, nil
			WithoutUsage(l.Containers)
		}
	}
}

// ContainerStats reads the usage of a container.
func (c *Client) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ContainerStatsResponse, error) {
		return c.Runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	})
	return resp.GetStats(), err
}

// ExecSync runs a command in a container and waits until it exits. If timeout is 0, only ctx limits
// the duration, as for the kubelet's hooks.
func (c *Client) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (*runtimeapi.ExecSyncResponse, error) {
	return c.execSync(ctx, id, command, timeout)
}

func (c *Client) execSync(ctx context.Context, id string, command []string, timeout time.Duration, opts ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+c.timeout)
		defer cancel()
	}
	runtime := c.Runtime
	if c.execs != nil {
		runtime = c.execs
	}
	return runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(timeout / time.Second)}, opts...)
}

// ReopenContainerLog makes the runtime reopen the log of a running container after the log file was
// renamed: the runtime then creates a new file. It fails if the container is not running.
func (c *Client) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ReopenContainerLogResponse, error) {
		return c.Runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	})
	return err
}

package cri

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox creates and starts a sandbox and returns its ID. Its timeout is twice the
// client's, as in the kubelet, because network plugins can be slow.
func (c *Client) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	resp, err := within(ctx, 2*c.timeout, func(ctx context.Context) (*runtimeapi.RunPodSandboxResponse, error) {
		return c.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	})
	return resp.GetPodSandboxId(), err
}

// StopPodSandbox stops a sandbox and its containers, and releases its network. It is not an error
// if the sandbox does not exist or was stopped before. The call may continue for up to 5 s after
// the end of ctx, because a network plugin that is killed leaves rules and addresses behind that
// its next run does not remove. While the runtime is busy with the sandbox, StopPodSandbox repeats
// the call.
//
// It first kills the running containers, like the kubelet (killPodWithSyncResult in
// pkg/kubelet/kuberuntime). CRI-O would send TERM to them and wait until the call's deadline. A
// caller that grants a grace period must stop the containers before it calls StopPodSandbox.
func (c *Client) StopPodSandbox(ctx context.Context, id string) error {
	return retryBusyExtended(ctx, func(ctx context.Context) error {
		c.killAll(ctx, id)
		return c.Containerd.settled(ctx, func() error {
			_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.StopPodSandboxResponse, error) {
				return c.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			})
			return err
		}, c.listedSandbox(id))
	})
}

// killAll kills the running containers of a sandbox. If it cannot kill a container, it ignores the
// error, because stopping the sandbox then also fails.
func (c *Client) killAll(ctx context.Context, sandbox string) {
	ids, err := c.containerIDs(ctx, &runtimeapi.ContainerFilter{
		PodSandboxId: sandbox, State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return
	}
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() { _ = c.StopContainer(ctx, id, 0) })
	}
	all.Wait()
}

// RemovePodSandbox removes a sandbox and its containers. It is not an error if the sandbox does not
// exist. As in StopPodSandbox, the call may continue after the end of ctx, and RemovePodSandbox
// repeats it while the runtime is busy. If containerd refuses because a container still has a task
// that was never started, RemovePodSandbox deletes the task first.
func (c *Client) RemovePodSandbox(ctx context.Context, id string) error {
	return retryBusyExtended(ctx, func(ctx context.Context) error {
		return c.Containerd.removal(ctx, func() error {
			return c.Containerd.settled(ctx, func() error {
				_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RemovePodSandboxResponse, error) {
					return c.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
				})
				return err
			}, c.listedSandbox(id))
		}, func(container string) (bool, error) { return c.inSandbox(ctx, id, container) })
	})
}

// UpdatePodSandboxResources informs the runtime of a pod's new resources. The caller must call it before it changes
// the pod's cgroup. If the runtime does not implement the call, it does not need the information, and
// UpdatePodSandboxResources returns nil. containerd up to 2.2 returns "not implemented" with a code other than
// Unimplemented.
func (c *Client) UpdatePodSandboxResources(ctx context.Context, id string, overhead, resources *runtimeapi.LinuxContainerResources) error {
	_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
		return c.Runtime.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: id, Overhead: overhead, Resources: resources})
	})
	if code := status.Code(err); code == codes.Unimplemented || code == codes.Unknown && strings.Contains(err.Error(), "not implemented") {
		return nil
	}
	return err
}

// PodSandboxStatus returns the status of one sandbox.
func (c *Client) PodSandboxStatus(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return c.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	})
	return resp.GetStatus(), err
}

// PodSandboxInfo returns the runtime's own information about one sandbox, as JSON values by key.
func (c *Client) PodSandboxInfo(ctx context.Context, id string) (map[string]string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return c.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	})
	return resp.GetInfo(), err
}

// ListPodSandbox lists the sandboxes that have all of the labels.
func (c *Client) ListPodSandbox(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListPodSandboxResponse, error) {
		return c.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels},
		})
	})
	return resp.GetItems(), err
}

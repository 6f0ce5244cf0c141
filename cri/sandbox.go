package cri

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox creates and starts a sandbox and returns its ID. Its limit is
// twice the ordinary one, as in the kubelet: the network plugins take their
// time.
func (c *Client) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	resp, err := within(ctx, 2*c.timeout, func(ctx context.Context) (*runtimeapi.RunPodSandboxResponse, error) {
		return c.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	})
	return resp.GetPodSandboxId(), err
}

// StopPodSandbox stops a sandbox and its containers, and releases its network. A
// missing or stopped sandbox is not an error. The call outlives ctx by up to 5 s: a
// network plugin that is killed amid its work leaves rules and addresses that its next
// run cannot know of any more. While the runtime is busy with the sandbox, the call is
// repeated.
//
// Containers that run are killed first, as the kubelet does (killPodWithSyncResult in
// pkg/kubelet/kuberuntime): CRI-O would send them TERM and wait as long as the call may
// take. Callers that give them a grace period stop them before.
func (c *Client) StopPodSandbox(ctx context.Context, id string) error {
	return finished(ctx, func(ctx context.Context) error {
		c.killAll(ctx, id)
		return c.settled(ctx, func() error {
			_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.StopPodSandboxResponse, error) {
				return c.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
			})
			return err
		}, c.listedSandbox(id))
	})
}

// killAll kills the containers of a sandbox that run. What fails is left to the stop of
// the sandbox, which then reports it.
func (c *Client) killAll(ctx context.Context, sandbox string) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			PodSandboxId: sandbox, State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		}})
	})
	if err != nil {
		return
	}
	var all sync.WaitGroup
	for _, container := range resp.GetContainers() {
		all.Go(func() { _ = c.StopContainer(ctx, container.GetId(), 0) })
	}
	all.Wait()
}

// RemovePodSandbox removes a sandbox and its containers. A missing sandbox is not
// an error. The call outlives ctx and is repeated as that of StopPodSandbox is. Tasks
// of its containers that containerd does not remove are deleted first.
func (c *Client) RemovePodSandbox(ctx context.Context, id string) error {
	return finished(ctx, func(ctx context.Context) error {
		return c.removal(ctx, func() error {
			return c.settled(ctx, func() error {
				_, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.RemovePodSandboxResponse, error) {
					return c.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
				})
				return err
			}, c.listedSandbox(id))
		}, func(container string) (bool, error) { return c.inSandbox(ctx, id, container) })
	})
}

// UpdatePodSandboxResources sends the runtime a pod's new resources, before its
// control group gets them. A runtime without the call is no error: it needs none of
// it. containerd up to 2.2 answers "not implemented" with another code than
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

// PodSandboxStatus reads one sandbox.
func (c *Client) PodSandboxStatus(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return c.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	})
	return resp.GetStatus(), err
}

// PodSandboxInfo reads the runtime's own information on one sandbox, JSON by key.
func (c *Client) PodSandboxInfo(ctx context.Context, id string) (map[string]string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return c.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	})
	return resp.GetInfo(), err
}

// ListPodSandbox lists the sandboxes that carry all of the labels.
func (c *Client) ListPodSandbox(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListPodSandboxResponse, error) {
		return c.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels},
		})
	})
	return resp.GetItems(), err
}

package cri

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// settled makes a call that stops or removes an object. If the runtime returns NotFound, settled
// ignores the error only if the runtime no longer lists the object. The reason is a behavior of
// containerd (1.6 and 1.7, internal/cri/server, before 2.0 pkg/cri/server: container_remove.go).
// Another program, such as `ctr containers rm`, may have removed containerd's record of the
// container, or of one container of the sandbox. Then containerd returns NotFound and does nothing.
// settled then restores the missing records with containerd's own service on the same socket, and
// repeats the call, which removes the records. listed returns the IDs of the objects that the call
// affects. It returns none if the runtime does not list the object.
func (c Containerd) settled(ctx context.Context, call func() error, listed func(context.Context) ([]string, error)) error {
	err := call()
	if status.Code(err) != codes.NotFound {
		return err
	}
	ids, lerr := listed(ctx)
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	if len(ids) == 0 {
		return nil
	}
	var restored []string
	defer func() { c.discard(context.WithoutCancel(ctx), restored) }()
	for _, id := range ids {
		is, rerr := c.restore(ctx, id)
		if is {
			restored = append(restored, id)
		}
		if rerr != nil {
			return fmt.Errorf("%w; the runtime still lists the object, and podrun cannot restore its missing record in containerd: %w; restart the runtime", err, rerr)
		}
	}
	if err = call(); status.Code(err) != codes.NotFound {
		return err
	}
	if ids, lerr = listed(ctx); lerr != nil || len(ids) == 0 {
		return lerr
	}
	return fmt.Errorf("%w, although the runtime still lists the object; restart the runtime", err)
}

// listedContainer returns the listed argument of settled for a container.
func (c *Client) listedContainer(id string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		return c.containerIDs(ctx, &runtimeapi.ContainerFilter{Id: id})
	}
}

// listedSandbox returns the listed argument of settled for a sandbox: its ID and those of
// its containers.
func (c *Client) listedSandbox(id string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListPodSandboxResponse, error) {
			return c.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: id}})
		})
		if err != nil || len(resp.GetItems()) == 0 {
			return nil, err
		}
		containers, err := c.containerIDs(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
		return append(containers, id), err
	}
}

func (c *Client) containerIDs(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	})
	var ids []string
	for _, container := range resp.GetContainers() {
		ids = append(ids, container.GetId())
	}
	return ids, err
}

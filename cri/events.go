package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerEvents calls take for each container event, until ctx ends or the runtime closes the
// stream. The error is never nil. Its code is Unimplemented if the runtime sends no events
// (containerd 1.6). Events are only hints: containerd 1.7 sends each one to only one of its
// subscribers.
func (c *Client) ContainerEvents(ctx context.Context, take func(*runtimeapi.ContainerEventResponse)) error {
	stream, err := c.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		take(e)
	}
}

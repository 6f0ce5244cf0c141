package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerEvents calls take with each event of a container's life, until ctx ends or
// the runtime ends the stream. The error is never nil; it has the code Unimplemented
// where the runtime has no events (containerd 1.6). Events are hints: containerd 1.7
// gives each to one of its subscribers only.
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

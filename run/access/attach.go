package access

import (
	"context"
	"fmt"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// Attach connects the streams to those of a container's main process, until the process
// exits or the streams are closed. s.TTY must equal t.TTY. When ctx ends, Attach closes the
// connection, and the process continues to run. The errors are those of Exec.
func Attach(ctx context.Context, n *node.Node, t Target, s Streams) error {
	err := n.Client.Streaming.Attach(ctx, t.ID, s)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; the container keeps running", err)
	}
	if err != nil {
		_, err = fault(ctx, n, t, "attach", err)
	}
	return err
}

// Ending reports whether an operation of any podrun process is stopping or removing a pod, or has
// removed it.
func Ending(n *node.Node, pod identity.Pod) bool {
	owner, err := store.ReadOwner(n.Layout(), pod)
	return err == nil && (owner == nil || owner.UID != pod.UID || owner.Ends())
}

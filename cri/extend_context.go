package cri

import (
	"context"
	"time"
)

// contextExtension is how long some calls may outlive their context: those that create or start
// an object, or that release a sandbox's network.
const contextExtension = 5 * time.Second

// ExtendContext returns a context for a call that creates or starts an object, or that releases a sandbox's network.
// It ends 5 s after ctx. Without this extension, a canceled call could still take effect after its caller has looked
// for leftovers and found none. Besides, if a start is canceled, containerd keeps the container "in starting state"
// for seconds, and cannot remove it during that time. The caller must call stop after the call has returned.
func ExtendContext(ctx context.Context) (answered context.Context, stop context.CancelFunc) {
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(contextExtension, cancel) })
	return answered, func() { unwatch(); cancel() }
}

package cri

import (
	"context"
	"time"
)

// contextExtension is the time for which calls that create or start an object, or that release a
// sandbox's network, may continue after the end of their context.
const contextExtension = 5 * time.Second

// ExtendContext returns a context for a call that creates or starts an object, or that releases a sandbox's network.
// It ends 5 s after ctx. Without this extension, a canceled call could still take effect after its caller has
// searched for leftovers and found none. In addition, if a start is canceled, containerd keeps the container "in
// starting state" for seconds, and cannot remove it during that time. The caller must call stop after the call has
// returned.
func ExtendContext(ctx context.Context) (answered context.Context, stop context.CancelFunc) {
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(contextExtension, cancel) })
	return answered, func() { unwatch(); cancel() }
}

package cri

import (
	"context"
	"time"
)

// contextExtension is how long a call that creates or starts an object, or releases a
// sandbox's network, may outlive its context.
const contextExtension = 5 * time.Second

// ExtendContext returns a context for such a call, which ends 5 s after ctx. Without this
// extension, a canceled call could still take effect after its caller has searched for leftovers
// and found none. Moreover, containerd keeps a container whose start was canceled "in starting
// state" for seconds, during which it cannot be removed. The caller must call stop after the call
// has returned.
func ExtendContext(ctx context.Context) (answered context.Context, stop context.CancelFunc) {
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(contextExtension, cancel) })
	return answered, func() { unwatch(); cancel() }
}

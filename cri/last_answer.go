package cri

import (
	"context"
	"time"
)

// lastAnswerWait is how much longer than its context a call may take that makes or
// starts something, or that releases a sandbox's network.
const lastAnswerWait = 5 * time.Second

// LastAnswer returns a context for such a call that outlives ctx by 5 s. A
// canceled call may still take effect, after its caller has looked for leftovers
// and found none; and containerd keeps a container whose start was canceled "in
// starting state" for seconds, in which it cannot be removed. Call stop when the
// call has returned.
func LastAnswer(ctx context.Context) (answered context.Context, stop context.CancelFunc) {
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(lastAnswerWait, cancel) })
	return answered, func() { unwatch(); cancel() }
}

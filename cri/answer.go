package cri

import (
	"context"
	"time"
)

// lastAnswerWait is how much longer than its context a call may take that makes
// or starts something.
const lastAnswerWait = 5 * time.Second

// LastAnswer is a context for such a call, that outlives ctx by 5 s. A call that
// is cancelled may take effect all the same, after its caller has looked for
// what to remove and seen nothing; and containerd keeps a container whose start
// was cancelled "in starting state" for seconds, in which nobody can remove it.
// Call stop when the call has returned.
func LastAnswer(ctx context.Context) (answered context.Context, stop context.CancelFunc) {
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(lastAnswerWait, cancel) })
	return answered, func() { unwatch(); cancel() }
}

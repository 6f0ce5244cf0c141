package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/run/node"
)

// facts reads the host's facts once for all pods that request them at about the same time, for
// example at startup.
type facts struct {
	discover func(context.Context) (host.Facts, error)

	// A goroutine must not hold mu while it reads the facts, because the read may hang.
	mu   sync.Mutex
	last *factsRead // nil before the first read
}

// factsRead is one read of the facts. It runs in a separate goroutine, so that it continues for the
// other pods if the step of the pod that first requested it ends.
type factsRead struct {
	done  chan struct{} // closed when facts, err and at have been set
	facts host.Facts
	err   error
	at    time.Time

	// Guarded by facts.mu.
	waiting int // number of waiting pods
	cancel  context.CancelFunc
	// true if the read was canceled because no pod waited for it any longer
	unused bool
}

// factsAge is the maximum age of the facts with which podrun plans a pod that was already admitted.
const factsAge = 2 * time.Second

func newFacts(n *node.Node) *facts {
	return &facts{discover: func(ctx context.Context) (host.Facts, error) {
		return discover.Read(ctx, n.Client, n.Settings, discover.Options{})
	}}
}

// read returns the facts about the host. Pods that wait at the same time share one read. The error is that of ctx or
// of discover.Read.
func (f *facts) read(ctx context.Context) (host.Facts, error) {
	for {
		r, unused := f.join(ctx)
		select {
		case <-r.done:
			if !unused || r.err == nil {
				return r.facts, r.err
			}
		case <-ctx.Done():
			f.leave(r)
			return host.Facts{}, context.Cause(ctx)
		}
	}
}

// join adds a pod to the current read. If the current read is too old or has failed, join
// begins another one. Only one read is active at a time. If the returned read has unused set,
// the caller must wait for its end and then call join again.
func (f *facts) join(ctx context.Context) (r *factsRead, unused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.last; r != nil && r.current() {
		r.waiting++
		return r, r.unused
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r = &factsRead{done: make(chan struct{}), waiting: 1, cancel: cancel}
	f.last = r
	go func() {
		defer cancel()
		defer close(r.done)
		r.facts, r.err = f.discover(ctx)
		r.at = time.Now()
	}()
	return r, false
}

// leave removes a pod from a read. If no other pod waits for the read, leave cancels it.
func (f *facts) leave(r *factsRead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.unused = true
		r.cancel()
	}
}

// current reports whether the read is in progress or its result can still be used.
func (r *factsRead) current() bool {
	select {
	case <-r.done:
		return r.err == nil && time.Since(r.at) < factsAge
	default:
		return true
	}
}

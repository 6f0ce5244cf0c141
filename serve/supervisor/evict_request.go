package supervisor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// eviction is a requested eviction. The pod's goroutine executes it, sets err, and closes done.
type eviction struct {
	reconcile.Eviction
	done chan struct{}
	err  error
}

// cleanup is how long an eviction may exceed its grace period before the next pass begins. The
// value is the kubelet's podCleanupTimeout (pkg/kubelet/eviction).
const cleanup = 30 * time.Second

// errSlow means that an eviction has begun and is still in progress.
var errSlow = errors.New("the eviction is still in progress")

// evictionRequest is the eviction of a pod that another goroutine requests.
type evictionRequest struct {
	changed wait.Signal // of the pod

	mu    sync.Mutex // guards all fields below
	asked *eviction  // nil for none
	begun bool
}

// ask requests an eviction from the pod's goroutine and waits until it is complete. It
// returns the error of the eviction, the error of ctx, errSlow, or an error that states that the
// eviction did not begin.
func (r *evictionRequest) ask(ctx context.Context, e reconcile.Eviction) error {
	asked := &eviction{Eviction: e, done: make(chan struct{})}
	r.mu.Lock()
	if r.asked != nil {
		r.mu.Unlock()
		return errors.New("another eviction of the pod is in progress")
	}
	r.asked = asked
	r.mu.Unlock()
	r.changed.Send()
	timer := time.NewTimer(e.Grace + cleanup)
	defer timer.Stop()
	select {
	case <-asked.done:
		return asked.err
	case <-timer.C:
		if r.withdraw(asked) {
			return errors.New("the pod is busy")
		}
		return errSlow
	case <-ctx.Done():
		r.withdraw(asked)
		return context.Cause(ctx)
	}
}

// withdraw cancels an eviction that has not begun. It returns false if the eviction has begun.
func (r *evictionRequest) withdraw(asked *eviction) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != asked || r.begun {
		return false
	}
	r.asked = nil
	return true
}

// due reports whether an eviction is requested.
func (r *evictionRequest) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked != nil
}

// begin begins the requested eviction; it returns nil if the request was withdrawn.
func (r *evictionRequest) begin() *eviction {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = r.asked != nil
	return r.asked
}

// end ends the eviction that has begun, whose error ask returns.
func (r *evictionRequest) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked.err = err
	close(r.asked.done)
	r.asked = nil
	r.begun = false
}

// evict executes the requested eviction.
func (p *pod) evict(ctx context.Context, in stepInput) (err error) {
	asked := p.eviction.begin()
	if asked == nil {
		return nil
	}
	defer func() { p.eviction.end(err) }()
	n := p.node()
	if err := p.awaitRuntime(ctx); err != nil {
		return err
	}
	lock, err := n.Locks().WithGrace(asked.Grace).LockPod(ctx, in.id, store.PurposeStop)
	defer lock.Release()
	if err != nil {
		return err
	}
	if err := reconcile.Evict(ctx, n, in.id, lock, asked.Eviction); err != nil {
		return err
	}
	if asked.Shutdown == "" {
		p.noteEnded(n)
	}
	return nil
}

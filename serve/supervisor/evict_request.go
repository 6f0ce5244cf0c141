package supervisor

import (
	"context"
	"errors"
	"time"

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

// askEviction requests an eviction from the pod's goroutine and waits until it is complete. It
// returns the error of the eviction, the error of ctx, errSlow, or an error that states that the
// eviction did not begin.
func (p *pod) askEviction(ctx context.Context, e reconcile.Eviction) error {
	asked := &eviction{Eviction: e, done: make(chan struct{})}
	p.mu.Lock()
	if p.eviction != nil {
		p.mu.Unlock()
		return errors.New("another eviction of the pod is in progress")
	}
	p.eviction = asked
	p.mu.Unlock()
	p.changed.Send()
	timer := time.NewTimer(e.Grace + cleanup)
	defer timer.Stop()
	select {
	case <-asked.done:
		return asked.err
	case <-timer.C:
		if p.withdraw(asked) {
			return errors.New("the pod is busy")
		}
		return errSlow
	case <-ctx.Done():
		p.withdraw(asked)
		return context.Cause(ctx)
	}
}

// withdraw cancels an eviction that has not begun. It returns false if the eviction has begun.
func (p *pod) withdraw(asked *eviction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.eviction != asked || p.step.Do == Evict {
		return false
	}
	p.eviction = nil
	return true
}

// evict executes the requested eviction.
func (p *pod) evict(ctx context.Context, in stepInput) (err error) {
	p.mu.Lock()
	asked := p.eviction
	p.mu.Unlock()
	if asked == nil {
		return nil // the request was withdrawn
	}
	defer func() {
		p.mu.Lock()
		p.eviction = nil
		p.mu.Unlock()
		asked.err = err
		close(asked.done)
	}()
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

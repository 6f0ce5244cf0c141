package imagepull

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/wait"
)

// pulling is a pull of one reference that is in progress.
type pulling struct {
	done chan struct{}
	// whether the pull succeeded; it is set before done is closed
	ok bool
}

// lock reserves a reference for one pull; the result unlock releases the reservation. The result waited
// reports whether lock had to wait for other jobs, and pulled whether the last of those jobs pulled the
// image.
func (p *Puller) lock(ctx context.Context, ref string) (waited, pulled bool, unlock func(ok bool), err error) {
	for {
		p.mu.Lock()
		busy, taken := p.busy[ref]
		if !taken {
			mine := &pulling{done: make(chan struct{})}
			p.busy[ref] = mine
			p.mu.Unlock()
			return waited, pulled, func(ok bool) {
				p.mu.Lock()
				delete(p.busy, ref)
				p.mu.Unlock()
				mine.ok = ok
				close(mine.done)
			}, nil
		}
		p.mu.Unlock()
		waited = true
		select {
		case <-busy.done:
			pulled = busy.ok
		case <-ctx.Done():
			return waited, false, nil, endOf(ctx)
		}
	}
}

// newLimiter limits the rate of the pulls of all pods: initially, burst pulls may start at once,
// and later qps pulls per second. A qps of 0 means no limit. If a pull exceeds registryPullQPS, the
// kubelet makes it fail and backs off for 10 s. podrun waits instead, even if ctx's deadline will
// expire before the wait is over. The error is then the same as for any other pull that takes too
// long. rate.Limiter.Wait would fail immediately.
func newLimiter(qps float64, burst int) *rate.Limiter {
	if qps <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(qps), max(burst, 1))
}

// turn waits until another pull may run. It waits first for a slot and then for the rate limit, so
// that a pull that is canceled while it waits for a slot does not count towards the rate.
func (p *Puller) turn(ctx context.Context) (release func(), err error) {
	release = func() {}
	if p.slots != nil {
		select {
		case p.slots <- struct{}{}:
			release = func() { <-p.slots }
		case <-ctx.Done():
			return nil, endOf(ctx)
		}
	}
	if err := p.pace(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// pace waits until the rate limit allows another pull. Only the first pull in the queue has a
// reservation, because canceling a reservation has no effect if there are later ones
// (rate.Reservation).
func (p *Puller) pace(ctx context.Context) error {
	select {
	case p.queue <- struct{}{}:
		defer func() { <-p.queue }()
	case <-ctx.Done():
		return endOf(ctx)
	}
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	reserved := p.limit.Reserve()
	err := p.sleep(ctx, reserved.Delay())
	if err != nil {
		reserved.Cancel()
	}
	return err
}

// left returns the remaining time of an image's back-off.
func (p *Puller) left(key backOffKey) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known[key.UID] {
		p.known[key.UID] = true
		backOffDir{p.opt.BackOffDir}.read(&p.backOff, key.UID, time.Now())
	}
	return p.backOff.Left(key, time.Now())
}

// Forget removes the state of a pod from memory. The caller calls it when no worker handles the pod
// any longer. The pod's back-off remains on disk, where the next Start reads it.
func (p *Puller) Forget(uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opt.BackOffDir == "" {
		return
	}
	delete(p.known, uid)
	p.backOff.forget(uid)
}

// succeed removes the failures of an image that podrun has pulled.
func (p *Puller) succeed(key backOffKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backOff.Succeed(key)
	p.keep(key.UID)
}

// fail records the reason of a failed pull if podrun will retry the pull. The next attempt and
// commands that show the pod use the record. fail returns the delay until the next attempt and, if the registry
// requested a delay that is at least as long as the back-off, this delay as asked. Otherwise asked is 0.
func (p *Puller) fail(key backOffKey, image Image, e *PullError) (next, asked time.Duration) {
	because := why{Image: image.Name, Reason: e.Reason, Message: event.Cut(e.status())}
	for _, c := range image.Containers {
		because.Containers = append(because.Containers, c.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Err != nil {
		asked = retryAfter(Detail(e.Err), time.Now())
	}
	next = p.backOff.Fail(key, because, asked, time.Now())
	p.keep(key.UID)
	if asked < next {
		asked = 0
	}
	return next, asked
}

// keep stores a pod's back-off. It ignores errors, because their only effect is that a later
// process retries too early.
func (p *Puller) keep(uid string) {
	_ = backOffDir{p.opt.BackOffDir}.write(&p.backOff, uid, time.Now())
}

// sleep waits for d, or until ctx ends.
func (p *Puller) sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	if d <= 0 {
		return nil
	}
	if wait.Sleep(ctx, d) != nil {
		return endOf(ctx)
	}
	return nil
}

package stop

import (
	"context"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
)

// stopRetryTimeout is how long podrun retries a call that failed to stop or remove an object. (The kubelet
// retries forever.) If a container's shim does not respond, containerd on a busy machine takes seconds to
// detect that the container has exited. In a virtual machine with a third of a CPU, it took more than 5 s.
// The pauses between attempts double, because calls fail immediately while the runtime is restarting.
const (
	stopRetryTimeout = 15 * time.Second
	firstStopPause   = 100 * time.Millisecond
	lastStopPause    = 2 * time.Second
)

// retries determines when the attempts of one call are made. The zero value is ready for use.
type retries struct {
	end   time.Time // the time of the first failure plus stopRetryTimeout
	pause time.Duration
}

// failed must be called after each failed attempt. It returns false if the time for attempts has expired.
// Otherwise it waits until the next attempt is due or ctx ends, and returns true.
func (r *retries) failed(ctx context.Context) bool {
	if r.end.IsZero() {
		r.end = time.Now().Add(stopRetryTimeout)
		r.pause = firstStopPause
	}
	if time.Now().After(r.end) {
		return false
	}
	_ = wait.Sleep(ctx, r.pause) // the caller checks ctx
	r.pause = wait.Next(r.pause, firstStopPause, lastStopPause)
	return true
}

// DuringOutage makes a call, and retries it while the runtime is unavailable. It does not retry other errors,
// for two reasons: the client has already repeated calls that a busy runtime refused (cri.Busy), and the
// caller holds the pod's lock.
func DuringOutage(ctx context.Context, call func() error) error {
	var r retries
	for {
		err := call()
		if !observe.IsUnavailable(err) || ctx.Err() != nil || !r.failed(ctx) || ctx.Err() != nil {
			return err
		}
	}
}

// RemoveContainer removes a container from the runtime, with the retries of DuringOutage.
func RemoveContainer(ctx context.Context, client *cri.Client, id string) error {
	return DuringOutage(ctx, func() error { return client.RemoveContainer(ctx, id) })
}

// RemoveSandbox removes a sandbox from the runtime, with the retries of DuringOutage.
func RemoveSandbox(ctx context.Context, client *cri.Client, id string) error {
	return DuringOutage(ctx, func() error { return client.RemovePodSandbox(ctx, id) })
}

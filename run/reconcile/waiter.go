package reconcile

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
)

// A waiter waits, without the pod's lock, for changes that require a new decision of lifecycle.Next.
// The waiter of a command polls; the waiter of a supervisor's worker uses a hub that all workers share.
type waiter interface {
	// change returns when the pod may have changed, or when a value arrives on wake. It updates the
	// observation with the changes that it detected. If relist is true, the caller must observe the
	// pod again.
	change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error)
	// runtime waits until an unavailable runtime may be available again.
	runtime(ctx context.Context) error
}

// poll is the waiter of a command.
type poll struct {
	pod   *pod.Pod
	every time.Duration // interval at which the caller must observe the pod even if nothing has happened
}

// followPoll is the interval at which a command observes a pod that another command owns.
const followPoll = 500 * time.Millisecond

func (p poll) change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error) {
	return changed(observe.AwaitChange(ctx, p.pod.Node.Client, p.pod.Observed, d, wake, p.every))
}

// changed returns the result of a waiter.
func changed(relist bool, err error) (bool, error) {
	if code := status.Code(err); code == codes.NotFound || code == codes.Unavailable {
		// the next observation reports the error
		return true, nil
	}
	return relist, err
}

func (p poll) runtime(ctx context.Context) error { return wait.Sleep(ctx, observe.OutagePoll) }

// watching is the waiter of a supervisor's worker.
type watching struct {
	pod     *pod.Pod
	hub     *observe.Hub
	changes *observe.Watch
}

func (h watching) change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error) {
	return changed(h.changes.Await(ctx, h.pod.Node.Client, h.pod.Observed, d, wake))
}

func (h watching) runtime(ctx context.Context) error { return h.hub.AwaitRuntime(ctx) }

package reconcile

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
)

// A waiter waits, without the pod's lock, for changes after which lifecycle.Next must decide again. The
// implementation for commands polls; that for a supervisor's workers uses a shared hub.
type waiter interface {
	// change returns when the pod may have changed, or a value arrives on wake. It updates the
	// observation with the changes that it detected; relist is true if the pod must be observed again.
	change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error)
	// runtime waits until an unavailable runtime may be available again.
	runtime(ctx context.Context) error
}

// poll is the waiter of a command.
type poll struct {
	pod   *pod.Pod
	every time.Duration // interval at which the pod is observed in any case
}

// followPoll is the interval at which a command observes a pod that another command owns.
const followPoll = 500 * time.Millisecond

func (p poll) change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error) {
	err = observe.AwaitChange(ctx, p.pod.Node.Client, p.pod.Observed, d, wake, p.every)
	if errors.Is(err, observe.ErrRelist) || status.Code(err) == codes.NotFound { // the pod's owner removed the container
		return true, nil
	}
	return false, err
}

func (p poll) runtime(ctx context.Context) error { return wait.Sleep(ctx, observe.OutagePoll) }

// watching is the waiter of a supervisor's worker.
type watching struct {
	pod   *pod.Pod
	hub   *observe.Hub
	watch *observe.Watch
}

func (h watching) change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error) {
	relist, err = h.watch.Await(ctx, h.pod.Node.Client, h.pod.Observed, d, wake)
	if code := status.Code(err); code == codes.NotFound || code == codes.Unavailable {
		return true, nil // the next observation reports it
	}
	return relist, err
}

func (h watching) runtime(ctx context.Context) error { return h.hub.AwaitRuntime(ctx) }

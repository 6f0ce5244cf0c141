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

// A waiter waits, without the pod's lock, for what lifecycle.Next would act upon. Its
// implementations are a command's, which polls, and a supervisor's, whose workers share a hub.
type waiter interface {
	// change returns when the pod may have changed, or wake has something; relist reports
	// that it must be observed again. It records in the observation what it has learned.
	change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error)
	// runtime returns when a runtime that was away may answer.
	runtime(ctx context.Context) error
}

// poll is the waiter of a command.
type poll struct {
	pod   *pod.Pod
	every time.Duration // how often the pod is observed in any case
}

// followPoll is how often a command observes a pod that another one owns.
const followPoll = 500 * time.Millisecond

func (p poll) change(ctx context.Context, d lifecycle.Decision, wake <-chan struct{}) (relist bool, err error) {
	err = observe.AwaitChange(ctx, p.pod.Node.Client, p.pod.Observed, d, wake, p.every)
	if errors.Is(err, observe.ErrRelist) || status.Code(err) == codes.NotFound { // removed by the pod's owner
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
		return true, nil // observing again shows it
	}
	return relist, err
}

func (h watching) runtime(ctx context.Context) error { return h.hub.AwaitRuntime(ctx) }

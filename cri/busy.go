package cri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/internal/wait"
)

// BusyFor is the time for which podrun repeats a call while the runtime is still processing a call
// of another client for the same sandbox or container. The other client is usually a podrun process
// that was killed. The runtime cancels the calls of that process, which takes some seconds on a
// busy host.
const BusyFor = 10 * time.Second

// busyPoll is the interval between repeated calls.
const busyPoll = 100 * time.Millisecond

// busyTexts are substrings of errors after which podrun can repeat a call. Either the runtime
// refuses the call while it is working on the same object, or the call failed for a temporary
// reason.
var busyTexts = []string{
	// containerd 1.6 to 2.4, internal/cri/server (before 2.0 pkg/cri/server): container_remove.go
	// (also called when a sandbox is removed), container_start.go, container_update_resources.go.
	"is in starting state",
	"is already in starting state",
	"is in removing state",
	"is already in removing state",
	"is still running, to stop first",
	"state is unknown, to stop first",
	// containerd 1.6 and 1.7, pkg/cri/server/sandbox_remove.go: the sandbox's containers
	// are removed first.
	"is not fully stopped",
	// containerd 2, internal/cri/server/podsandbox/sandbox_stop.go: the steps of
	// StopPodSandbox have their own timeouts, which expire while containerd is frozen.
	"failed to get pod sandbox container: context deadline exceeded",
	// containerd 1.6 and 1.7, pkg/cri/server/sandbox_stop.go: the shim exits during the call,
	// because an earlier StopPodSandbox was canceled. containerd 2 repeats the call by itself.
	"failed to kill sandbox container: ttrpc: closed",
}

// reservedTexts are substrings of the errors with which a runtime refuses to create a second
// sandbox or container with a name that is in use. The name may belong to an object that the
// runtime is still creating.
var reservedTexts = []string{
	"is reserved for",  // containerd 1.6 to 2.4, pkg/registrar
	"name is reserved", // CRI-O, internal/registrar: ErrNameReserved
}

// Busy reports whether a runtime refused a call because it is still working on the same object.
// podrun can repeat such a call.
func Busy(err error) bool { return mentions(err, busyTexts) }

// Reserved reports whether a runtime refused to create a sandbox or a container because its name is
// in use. The name may belong to an object that the runtime is still creating.
func Reserved(err error) bool { return mentions(err, reservedTexts) }

func mentions(err error, texts []string) bool {
	if err == nil {
		return false
	}
	said := err.Error()
	for _, text := range texts {
		if strings.Contains(said, text) {
			return true
		}
	}
	return false
}

// retryBusy makes a call, and repeats it while the runtime is busy with the object, until BusyFor
// has passed or ctx ends.
func retryBusy(ctx context.Context, call func() error) error {
	return RetryWhile(ctx, BusyFor, func() (bool, error) {
		err := call()
		return Busy(err), err
	})
}

// retryBusyExtended is retryBusy for a call that must not be interrupted. A call that has started
// may continue after ctx ends (ExtendContext).
func retryBusyExtended(ctx context.Context, call func(context.Context) error) error {
	return retryBusy(ctx, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		answered, stop := ExtendContext(ctx)
		defer stop()
		return call(answered)
	})
}

// notInitialized is the error that containerd returns while its services start. containerd listens
// before its plugins are ready. Until they are ready, an interceptor refuses every call, so a
// refused call has no effect (containerd 1.6 to 2.4, internal/cri/instrument).
const notInitialized = "server is not initialized yet"

// onceInitialized is an interceptor that repeats a call while containerd is starting, until
// BusyFor has passed or ctx ends.
func onceInitialized(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return RetryWhile(ctx, BusyFor, func() (bool, error) {
		err := call(ctx, method, req, reply, conn, opts...)
		return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), notInitialized), err
	})
}

// RetryWhile repeats try until try returns false, limit has passed or ctx ends. It returns the error
// of the last call.
func RetryWhile(ctx context.Context, limit time.Duration, try func() (again bool, err error)) error {
	for end := time.Now().Add(limit); ; {
		again, err := try()
		if !again || time.Now().After(end) {
			return err
		}
		if wait.Sleep(ctx, busyPoll) != nil {
			return err
		}
	}
}

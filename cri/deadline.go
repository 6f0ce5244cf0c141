package cri

import (
	"context"
	"errors"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/internal/faultpoint"
)

// nearlyDue is a tolerance: a server may end a call this much earlier than the client's deadline.
const nearlyDue = 100 * time.Millisecond

// marked is an interceptor for the crash sweep, which can kill podrun immediately before and after
// each call.
func marked(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	defer faultpoint.Call("cri/" + path.Base(method))()
	return call(ctx, method, req, reply, conn, opts...)
}

// untilDue is an interceptor for calls that the server ends a moment before the client's deadline.
// The deadline of the caller's context is then still some milliseconds away. A caller that checks
// whether the context has ended would conclude that the call failed for another reason. So untilDue
// waits until the deadline.
func untilDue(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := call(ctx, method, req, reply, conn, opts...)
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Canceled {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < nearlyDue {
		<-ctx.Done()
	}
	return err
}

// Interrupted reports whether an error means only that the context ended before the call
// returned.
func Interrupted(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Canceled ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// observed is an interceptor that reports a call to the observer.
func (c *Client) observed(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	observer := c.observer.Load()
	if observer == nil {
		return call(ctx, method, req, reply, conn, opts...)
	}
	begun := time.Now()
	err := call(ctx, method, req, reply, conn, opts...)
	(*observer)(path.Base(method), time.Since(begun), err)
	return err
}

package critest

import (
	"context"
	"errors"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// gate is the gRPC interceptor of all unary calls. It records the call, applies a fault, and
// converts errors to statuses.
func (rt *Runtime) gate(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	msg, ok := req.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is not a protobuf message", req)
	}
	// The record contains a copy of the request, because the service may keep and change the
	// request.
	call := &Call{Method: path.Base(info.FullMethod), Request: proto.Clone(msg)}
	rt.mu.Lock()
	call.Start = time.Now()
	call.Subject = rt.subject(msg)
	rt.calls = append(rt.calls, call)
	rt.mu.Unlock()

	f := rt.strike(call.Method, call.Request)
	do := func(ctx context.Context) (any, error) { return handle(ctx, req) }
	var resp any
	var err error
	if f == nil {
		resp, err = do(ctx)
	} else {
		resp, err = rt.play(ctx, f, call.Request, do)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	err = asStatus(err)

	rt.mu.Lock()
	defer rt.mu.Unlock()
	call.Err, call.End = err, time.Now()
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// asStatus converts an error to a gRPC status. If the error wraps a status, the result has the
// code of that status and the whole text of the error.
func asStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Error(codes.Unknown, err.Error())
}

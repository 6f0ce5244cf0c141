package critest

import (
	"context"
	"fmt"
	"io"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
)

// Client returns an in-process client. It calls the runtime as Go functions, without a
// goroutine or a socket. It copies all messages, and its errors are those of a real client.
func (rt *Runtime) Client() *cri.Client {
	conn := &conn{rt}
	return cri.New(runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn), rt.options.timeout)
}

// conn is a grpc.ClientConnInterface without a network connection.
type conn struct{ rt *Runtime }

var services = []*grpc.ServiceDesc{&runtimeapi.RuntimeService_ServiceDesc, &runtimeapi.ImageService_ServiceDesc}

// Invoke calls a unary method.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return asStatus(err)
	}
	for _, s := range services {
		for _, m := range s.Methods {
			if "/"+s.ServiceName+"/"+m.MethodName != method {
				continue
			}
			resp, err := m.Handler(c.rt, ctx, copier(args), c.rt.gate)
			if err != nil {
				return asStatus(err)
			}
			return copyMessage(reply, resp)
		}
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s", path.Base(method))
}

// copier decodes a request by copying it.
func copier(from any) func(any) error {
	return func(to any) error { return copyMessage(to, from) }
}

func copyMessage(to, from any) error {
	t, ok1 := to.(proto.Message)
	f, ok2 := from.(proto.Message)
	if !ok1 || !ok2 {
		return status.Error(codes.Internal, fmt.Sprintf("%T or %T is not a protobuf message", to, from))
	}
	proto.Reset(t)
	proto.Merge(t, f)
	return nil
}

// NewStream opens a stream of responses to one request. A goroutine serves the stream until ctx
// ends or all responses are sent.
func (c *conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	for _, s := range services {
		for _, m := range s.Streams {
			if "/"+s.ServiceName+"/"+m.StreamName == method {
				return &stream{rt: c.rt, ctx: ctx, handler: m.Handler, items: make(chan proto.Message), end: make(chan error, 1)}, nil
			}
		}
	}
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s", path.Base(method))
}

// stream is the client's side of a stream. serverStream is the server's side.
type stream struct {
	rt      *Runtime
	ctx     context.Context
	handler grpc.StreamHandler
	request any
	items   chan proto.Message
	end     chan error
	over    error
}

func (s *stream) SendMsg(m any) error { s.request = m; return nil }

// CloseSend starts the server's goroutine.
func (s *stream) CloseSend() error {
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	if s.rt.closed {
		return status.Error(codes.Unavailable, "the runtime is closed")
	}
	s.rt.busy.Go(func() { s.end <- s.handler(s.rt, &serverStream{s}) })
	return nil
}

func (s *stream) RecvMsg(m any) error {
	if s.over != nil {
		return s.over
	}
	select {
	case item := <-s.items:
		return copyMessage(m, item)
	case err := <-s.end:
		s.over = asStatus(err)
		if s.over == nil {
			s.over = io.EOF
		}
		return s.over
	case <-s.ctx.Done():
		return asStatus(s.ctx.Err())
	}
}

func (s *stream) Context() context.Context     { return s.ctx }
func (s *stream) Header() (metadata.MD, error) { return nil, nil }
func (s *stream) Trailer() metadata.MD         { return nil }

type serverStream struct{ s *stream }

func (s *serverStream) RecvMsg(m any) error { return copyMessage(m, s.s.request) }

func (s *serverStream) SendMsg(m any) error {
	msg, ok := m.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", m)
	}
	select {
	case s.s.items <- msg:
		return nil
	case <-s.s.ctx.Done():
		return s.s.ctx.Err()
	}
}

func (s *serverStream) Context() context.Context     { return s.s.ctx }
func (s *serverStream) SetHeader(metadata.MD) error  { return nil }
func (s *serverStream) SendHeader(metadata.MD) error { return nil }
func (s *serverStream) SetTrailer(metadata.MD)       {}

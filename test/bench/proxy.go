package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// call is a call through the proxy.
type call struct {
	Method     string // such as RunPodSandbox
	Begin, End time.Time
	Request    []byte
	Response   []byte
}

// proxy forwards the bytes of every call between podrun and the runtime. It records when the
// call began and ended.
type proxy struct {
	path     string // path of the proxy's socket
	server   *grpc.Server
	upstream *grpc.ClientConn

	mu    sync.Mutex
	calls []call
	// exits maps the ID of each watched container to the time at which the runtime first reported
	// its exit.
	exits    map[string]exit
	watching sync.WaitGroup
	watch    context.Context
	stop     context.CancelFunc
}

// exit is the exit of a container.
type exit struct {
	Reported time.Time // the time at which the runtime first reported the exit
	Finished time.Time // the time of the exit, as reported by the runtime
}

// newProxy serves on a socket at path. If watchExits is set, the proxy polls every started
// container until it has exited. These polls are in addition to podrun's own requests.
func newProxy(path, upstream string, watchExits bool) (*proxy, error) {
	conn, err := grpc.NewClient("unix:"+upstream, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		conn.Close()
		return nil, err
	}
	p := &proxy{path: path, upstream: conn, exits: map[string]exit{}}
	p.watch, p.stop = context.WithCancel(context.Background())
	if !watchExits {
		p.stop()
	}
	p.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(p.handle), grpc.MaxRecvMsgSize(maxMessage))
	// Serve returns after Stop, which is not an error.
	go p.server.Serve(listener)
	return p, nil
}

// close stops the proxy with all calls and watches.
func (p *proxy) close() {
	p.stop()
	p.server.Stop()
	p.watching.Wait()
	// an error loses no data
	p.upstream.Close()
}

// recorded returns the calls that the proxy has recorded so far.
func (p *proxy) recorded() ([]call, map[string]exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.calls), maps.Clone(p.exits)
}

// handle forwards one call. It keeps only the first message of each direction, because the
// relevant calls are unary.
func (p *proxy) handle(_ any, down grpc.ServerStream) error {
	c := call{Begin: time.Now()}
	full, _ := grpc.MethodFromServerStream(down)
	c.Method = path.Base(full)
	md, _ := metadata.FromIncomingContext(down.Context())
	up, err := p.upstream.NewStream(metadata.NewOutgoingContext(down.Context(), md),
		&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, full)
	if err != nil {
		return err
	}
	var request frame
	if err := down.RecvMsg(&request); err != nil {
		return err
	}
	// When SendMsg returns io.EOF, RecvMsg returns the actual error.
	if err := up.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := up.CloseSend(); err != nil {
		return err
	}
	for {
		var response frame
		err := up.RecvMsg(&response)
		if err != nil {
			c.End = time.Now()
			c.Request = request.data
			p.note(c)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		c.Response = response.data
		if err := down.SendMsg(&response); err != nil {
			return err
		}
	}
}

// note records a call. If the call started a container, note starts to watch the container.
func (p *proxy) note(c call) {
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	var started runtimeapi.StartContainerRequest
	if c.Method != "StartContainer" || p.watch.Err() != nil || proto.Unmarshal(c.Request, &started) != nil {
		return
	}
	p.watching.Go(func() {
		// This fails when the proxy stops; in that case, there was no exit.
		if e, err := untilExit(p.watch, p.status, started.ContainerId); err == nil {
			p.mu.Lock()
			p.exits[started.ContainerId] = e
			p.mu.Unlock()
		}
	})
}

// status queries the runtime without recording the call.
func (p *proxy) status(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	request, err := proto.Marshal(&runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, err
	}
	var answer frame
	if err := p.upstream.Invoke(ctx, runtimeapi.RuntimeService_ContainerStatus_FullMethodName, &frame{request}, &answer); err != nil {
		return nil, err
	}
	var response runtimeapi.ContainerStatusResponse
	err = proto.Unmarshal(answer.data, &response)
	return response.GetStatus(), err
}

// frame is a message that has not been decoded.
type frame struct{ data []byte }

// rawCodec passes the bytes of messages through unchanged.
type rawCodec struct{}

// Name is part of a call's content type: the runtime expects protobuf.
func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("%T is not a frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is not a frame", v)
	}
	f.data = data.Materialize()
	return nil
}

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

// call is a call that went through the proxy.
type call struct {
	Method     string // RunPodSandbox
	Begin, End time.Time
	Request    []byte
	Response   []byte
}

// proxy stands between podrun and the runtime: it hands on the bytes of every
// call and notes when it began and ended.
type proxy struct {
	path     string // of its socket
	server   *grpc.Server
	upstream *grpc.ClientConn

	mu    sync.Mutex
	calls []call
	// exits are the moments at which the runtime first reported that a container
	// has exited, by ID; only of those that were watched.
	exits    map[string]exit
	watching sync.WaitGroup
	watch    context.Context
	stop     context.CancelFunc
}

// exit is the end of a container.
type exit struct {
	Told     time.Time // when the runtime was first seen to say so
	Finished time.Time // when it ended, as the runtime says
}

// newProxy serves on a socket at path. If watchExits is set, every container
// that is started is asked about until it has exited, beside what podrun asks.
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
	go p.server.Serve(listener) // ends with Stop, which is no error
	return p, nil
}

// close ends the proxy, and with it every call and watch.
func (p *proxy) close() {
	p.stop()
	p.server.Stop()
	p.watching.Wait()
	p.upstream.Close() // nothing is lost if that fails
}

// recorded returns what was seen so far.
func (p *proxy) recorded() ([]call, map[string]exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.calls), maps.Clone(p.exits)
}

// handle hands one call on. The first message of each direction is kept: the
// calls that matter are unary.
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
	if err := up.SendMsg(&request); err != nil && !errors.Is(err, io.EOF) {
		return err // EOF: the status shows it
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

// note keeps a call, and begins to watch a container that was started.
func (p *proxy) note(c call) {
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	var started runtimeapi.StartContainerRequest
	if c.Method != "StartContainer" || p.watch.Err() != nil || proto.Unmarshal(c.Request, &started) != nil {
		return
	}
	p.watching.Go(func() {
		// It ends with an error when the proxy does; then there was no exit.
		if e, err := untilExit(p.watch, p.status, started.ContainerId); err == nil {
			p.mu.Lock()
			p.exits[started.ContainerId] = e
			p.mu.Unlock()
		}
	})
}

// status asks the runtime, past the record.
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

// rawCodec hands the bytes of messages through.
type rawCodec struct{}

// Name is what the content type of a call says: for the runtime it is protobuf.
func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("%T is no frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is no frame", v)
	}
	f.data = data.Materialize()
	return nil
}

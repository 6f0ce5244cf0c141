// Package cri calls a container runtime over the Container Runtime Interface (k8s.io/cri-api,
// v1). Client and its parts have a method with plain Go parameters for each call, and apply the call's
// timeout. They do not depend on podrun's model of a pod.
package cri

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is the largest message that the kubelet accepts from a runtime (k8s.io/cri-client,
// 16 MiB).
const maxMessage = 16 << 20

// window is the size, in bytes, of HTTP/2's flow control windows: the runtime may send this much data of
// one response, and of all responses, before podrun has read it.
const window = 1 << 20

// Client calls one runtime. Its own methods call the CRI's RuntimeService. It is safe for concurrent use.
type Client struct {
	Runtime    runtimeapi.RuntimeServiceClient
	Images     Images
	Streaming  Streaming
	Containerd Containerd

	// the same service as Runtime, on a connection with small windows, for ExecSync; nil for a client from New
	execs    runtimeapi.RuntimeServiceClient
	endpoint string
	timeout  time.Duration
	conns    []*grpc.ClientConn
	observer atomic.Pointer[Observer]
	silence  atomic.Pointer[func()]
}

// RequestTimeout returns the timeout of all calls for which no other timeout is defined.
func (c *Client) RequestTimeout() time.Duration { return c.timeout }

// OnUnresponsive sets the function that ReportUnresponsive calls. Another goroutine may call f.
func (c *Client) OnUnresponsive(f func()) { c.silence.Store(&f) }

// ReportUnresponsive calls the function that OnUnresponsive has set. A caller uses it while it
// waits for a response from the runtime.
func (c *Client) ReportUnresponsive() {
	if f := c.silence.Load(); f != nil {
		(*f)()
	}
}

// Observer receives each completed call of a connected client: the method, such as
// RunPodSandbox, the duration, and the error. It must not block.
type Observer func(method string, took time.Duration, err error)

// Observe makes the client report the calls that follow to an observer, except streams. A
// client from New ignores it.
func (c *Client) Observe(o Observer) { c.observer.Store(&o) }

// New returns a client for two connected services. timeout limits each call that has no limit of
// its own (the kubelet's runtimeRequestTimeout).
func New(rt runtimeapi.RuntimeServiceClient, img runtimeapi.ImageServiceClient, timeout time.Duration) *Client {
	c := &Client{timeout: timeout}
	c.setServices(rt, img)
	return c
}

// Dial prepares a connection to a runtime. The endpoint is a unix:// URL or a path. If
// imageEndpoint is empty, the runtime's endpoint is used for images, too. Dial does not wait
// for the runtime. If the runtime is not available, the first call fails.
func Dial(endpoint, imageEndpoint string, timeout time.Duration) (*Client, error) {
	c := &Client{endpoint: endpoint, timeout: timeout}
	// The connection is established at the first call.
	execs, err := c.connect(endpoint, execWindow)
	if err != nil {
		return nil, err
	}
	c.execs = runtimeapi.NewRuntimeServiceClient(execs)
	rt, err := c.connect(endpoint, window)
	if err != nil {
		return nil, err
	}
	img := rt
	if imageEndpoint != "" && imageEndpoint != endpoint {
		if img, err = c.connect(imageEndpoint, window); err != nil {
			c.Close()
			return nil, err
		}
	}
	c.setServices(runtimeapi.NewRuntimeServiceClient(rt), runtimeapi.NewImageServiceClient(img))
	c.Images.conn = img
	c.Containerd = Containerd{
		tasks:   tasksapi.NewTasksClient(rt),
		records: containersapi.NewContainersClient(rt),
		timeout: timeout,
	}
	return c, nil
}

func (c *Client) setServices(rt runtimeapi.RuntimeServiceClient, img runtimeapi.ImageServiceClient) {
	c.Runtime = rt
	c.Images = Images{Service: img, timeout: c.timeout}
	c.Streaming = Streaming{runtime: rt, timeout: c.timeout}
}

func (c *Client) connect(endpoint string, window int32) (*grpc.ClientConn, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		// A fixed window disables the pings with which gRPC measures the bandwidth, and most window updates:
		// together ten of the system calls of two lists.
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithChainUnaryInterceptor(c.observed, untilDue, onceInitialized, marked, receiveInTurn),
		// By default, the authority of a unix socket is its path, which the HTTP/2 servers of some
		// runtimes reject. podrun uses localhost, as the kubelet does.
		grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	var first error
	for _, conn := range c.conns {
		if err := conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Endpoint returns the configured endpoint, or "" for a client from New.
func (c *Client) Endpoint() string { return c.endpoint }

// SocketPath returns the path of the socket of an endpoint, which has the form unix:///run/x.sock
// or /run/x.sock.
func SocketPath(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	if (u.Scheme == "unix" || u.Scheme == "") && u.Host == "" && u.Path != "" && u.Path[0] == '/' {
		return u.Path, nil
	}
	return "", fmt.Errorf("endpoint %q is not a unix socket: use unix:///path/to.sock", endpoint)
}

// DefaultEndpoints returns the sockets that podrun tries, in this order, if no endpoint is
// specified.
func DefaultEndpoints() []string {
	return []string{"unix:///run/containerd/containerd.sock", "unix:///run/crio/crio.sock"}
}

// within makes a call with a time limit.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// Package cri speaks to a container runtime over the Container Runtime
// Interface (k8s.io/cri-api, v1). Client gives each call its time limit and
// its plain Go shape; everything that knows what a pod is lives elsewhere.
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

// maxMessage is the largest message the kubelet accepts from a runtime
// (k8s.io/cri-client, 16 MiB).
const maxMessage = 16 << 20

// Client calls one runtime. It is safe for concurrent use.
type Client struct {
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient

	tasks    tasksapi.TasksClient // containerd's own; nil for New, like records
	records  containersapi.ContainersClient
	endpoint string
	timeout  time.Duration
	conns    []*grpc.ClientConn
	observer atomic.Pointer[Observer]
	silence  atomic.Pointer[func()]
}

// RequestTimeout is the limit of each call that has none of its own.
func (c *Client) RequestTimeout() time.Duration { return c.timeout }

// OnSilence makes TellSilence call f, which may run in any goroutine.
func (c *Client) OnSilence(f func()) { c.silence.Store(&f) }

// TellSilence says that a command waits for the runtime's first answer.
func (c *Client) TellSilence() {
	if f := c.silence.Load(); f != nil {
		(*f)()
	}
}

// Observer gets each call of a connected client when it has ended: the name of its
// method, such as RunPodSandbox, how long it took, and its error. It must not block.
type Observer func(method string, took time.Duration, err error)

// Observe makes the client report its calls to an observer from then on; streams are
// not reported. A client from New has none.
func (c *Client) Observe(o Observer) { c.observer.Store(&o) }

// New makes a client of two services that are connected already. Timeout bounds
// each call that has no limit of its own (the kubelet's runtimeRequestTimeout).
func New(rt runtimeapi.RuntimeServiceClient, img runtimeapi.ImageServiceClient, timeout time.Duration) *Client {
	return &Client{Runtime: rt, Images: img, timeout: timeout}
}

// Dial prepares a connection to the runtime at a unix:// endpoint or a path. An
// empty imageEndpoint is the runtime's own. It does not wait for the runtime:
// the first call reports whether it is there.
func Dial(endpoint, imageEndpoint string, timeout time.Duration) (*Client, error) {
	c := &Client{endpoint: endpoint, timeout: timeout}
	rt, err := c.connect(endpoint)
	if err != nil {
		return nil, err
	}
	img := rt
	if imageEndpoint != "" && imageEndpoint != endpoint {
		if img, err = c.connect(imageEndpoint); err != nil {
			c.Close()
			return nil, err
		}
	}
	c.Runtime = runtimeapi.NewRuntimeServiceClient(rt)
	c.Images = runtimeapi.NewImageServiceClient(img)
	c.tasks = tasksapi.NewTasksClient(rt)
	c.records = containersapi.NewContainersClient(rt)
	return c, nil
}

func (c *Client) connect(endpoint string) (*grpc.ClientConn, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithChainUnaryInterceptor(c.observed, untilDue, onceInitialized, marked),
		// The authority of a unix socket is its path, which some runtimes' HTTP/2
		// servers refuse: say localhost, as the kubelet does.
		grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// Close ends the connections.
func (c *Client) Close() error {
	var first error
	for _, conn := range c.conns {
		if err := conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// ImageConn is the connection to the image service, for what a runtime serves
// there beside the CRI; nil for New.
func (c *Client) ImageConn() grpc.ClientConnInterface {
	if len(c.conns) == 0 {
		return nil
	}
	return c.conns[len(c.conns)-1]
}

// Endpoint returns the configured endpoint; empty for a client from New.
func (c *Client) Endpoint() string { return c.endpoint }

// SocketPath gives the path of an endpoint: unix:///run/x.sock or /run/x.sock.
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

// DefaultEndpoints are the sockets looked for when none is named, in order.
func DefaultEndpoints() []string {
	return []string{"unix:///run/containerd/containerd.sock", "unix:///run/crio/crio.sock"}
}

// within bounds one call.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// portForwardProtocol is the only version of the protocol.
const portForwardProtocol = "portforward.k8s.io"

// Forwarded is a connection to a TCP port of a sandbox.
//
// Each Forwarded uses a separate connection to the runtime. On a shared connection, one slow
// reader would delay the others. With containerd 1.6, twenty concurrent streams block forever
// (measured; k/k#117493 is similar).
type Forwarded struct {
	conn    net.Conn
	session httpstream.Connection
	data    httpstream.Stream
	told    chan error // receives the runtime's error, or nil
	once    sync.Once
}

// PortForward connects to a port of a sandbox. If no process listens on the port, PortForward
// returns no error, but Forwarded.Err does. The error is a gRPC status of the call, a
// *NotStreamedError, or ctx's cause. The argument ctx limits only the time to connect.
func (c Streaming) PortForward(ctx context.Context, sandboxID string, port int) (*Forwarded, error) {
	url, err := c.PortForwardURL(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	conn, session, err := c.upgraded(ctx, url, portForwardProtocol)
	if err != nil {
		return nil, err
	}
	f := &Forwarded{conn: conn, session: session, told: make(chan error, 1)}
	// Opening a stream blocks while the server does not respond.
	unblock := context.AfterFunc(ctx, f.Close)
	err = f.open(port)
	if !unblock() {
		err = context.Cause(ctx)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// PortForwardURL requests a URL of the runtime's streaming server. A client can use the URL to
// connect to the ports of a sandbox.
func (c Streaming) PortForwardURL(ctx context.Context, sandboxID string) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.PortForwardResponse, error) {
		return c.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID})
	})
	return resp.GetUrl(), err
}

// open opens the two streams of the connection.
func (f *Forwarded) open(port int) error {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(port))
	header.Set(corev1.PortForwardRequestIDHeader, "0")
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	fault, err := f.session.CreateStream(header)
	if err != nil {
		return fmt.Errorf("open the error stream of port %d: %w", port, err)
	}
	// podrun sends nothing on the error stream.
	_ = fault.Close()
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	if f.data, err = f.session.CreateStream(header); err != nil {
		return fmt.Errorf("open the data stream of port %d: %w", port, err)
	}
	go func() {
		text, err := io.ReadAll(io.LimitReader(fault, maxMessage))
		switch {
		case len(text) > 0:
			err = errors.New(string(text))
		case err != nil:
			err = fmt.Errorf("read the runtime's error: %w", err)
		}
		f.told <- err
	}()
	return nil
}

// Read reads data that the pod sent.
func (f *Forwarded) Read(p []byte) (int, error) { return f.data.Read(p) }

// Write sends data to the pod.
func (f *Forwarded) Write(p []byte) (int, error) { return f.data.Write(p) }

// CloseWrite signals the end of the input to the pod.
func (f *Forwarded) CloseWrite() error { return f.data.Close() }

// Err waits until the runtime has closed the connection, or ctx ends. It returns the runtime's
// error, for example that no process listens on the port, or that the connection to the pod broke.
func (f *Forwarded) Err(ctx context.Context) error {
	select {
	case err := <-f.told:
		f.told <- err
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes the connection. It discards data that was not sent or read yet.
func (f *Forwarded) Close() {
	f.once.Do(func() {
		// The connection is closed first, because closing the session waits until all data has been
		// read.
		f.conn.Close()
		f.session.Close()
	})
}

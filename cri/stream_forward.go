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
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// portForwardProtocol is the one version of the protocol that there is.
const portForwardProtocol = "portforward.k8s.io"

// Forwarding is a connection by which a sandbox's ports can be reached. Its methods
// may be called concurrently.
type Forwarding struct {
	conn    net.Conn
	session httpstream.Connection
	ids     atomic.Int64
	once    sync.Once
}

// PortForward connects to the ports of a sandbox. The errors are the call's own (a
// gRPC status), a *NotStreamedError, or ctx's cause. ctx is for the connecting only.
func (c *Client) PortForward(ctx context.Context, sandboxID string) (*Forwarding, error) {
	url, err := c.PortForwardURL(ctx, sandboxID)
	if err != nil {
		return nil, err
	}
	conn, session, err := c.upgraded(ctx, url, portForwardProtocol)
	if err != nil {
		return nil, err
	}
	return &Forwarding{conn: conn, session: session}, nil
}

// PortForwardURL asks the runtime for a URL of its streaming server by which the ports
// of a sandbox can be reached.
func (c *Client) PortForwardURL(ctx context.Context, sandboxID string) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.PortForwardResponse, error) {
		return c.Runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: sandboxID})
	})
	return resp.GetUrl(), err
}

// Closed is closed when the connection was lost.
func (f *Forwarding) Closed() <-chan bool { return f.session.CloseChan() }

// Close ends the connection and all that were opened by Open.
func (f *Forwarding) Close() {
	f.once.Do(func() {
		f.conn.Close() // first, or closing the session waits for what is not read
		f.session.Close()
	})
}

// Forwarded is one connection to a port of a sandbox.
type Forwarded struct {
	session httpstream.Connection
	data    httpstream.Stream
	fault   httpstream.Stream
	told    chan error // has the runtime's error, or nil
}

// Open opens a connection to a TCP port. That nothing listens there is not known yet:
// see Forwarded.Err.
func (f *Forwarding) Open(ctx context.Context, port int) (*Forwarded, error) {
	type result struct {
		conn *Forwarded
		err  error
	}
	done := make(chan result, 1)
	go func() { // it waits for a server that does not answer
		conn, err := f.open(port)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func (f *Forwarding) open(port int) (*Forwarded, error) {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(port))
	header.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(f.ids.Add(1)-1, 10))
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	fault, err := f.session.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("open the error stream of port %d: %w", port, err)
	}
	_ = fault.Close() // nothing is written to it
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := f.session.CreateStream(header)
	if err != nil {
		_ = fault.Reset()
		f.session.RemoveStreams(fault)
		return nil, fmt.Errorf("open the data stream of port %d: %w", port, err)
	}
	c := &Forwarded{session: f.session, data: data, fault: fault, told: make(chan error, 1)}
	go func() {
		text, err := io.ReadAll(io.LimitReader(fault, maxMessage))
		switch {
		case len(text) > 0:
			err = errors.New(string(text))
		case err != nil:
			err = fmt.Errorf("read the runtime's error: %w", err)
		}
		c.told <- err
	}()
	return c, nil
}

// Read reads what the pod sends.
func (c *Forwarded) Read(p []byte) (int, error) { return c.data.Read(p) }

// Write sends to the pod.
func (c *Forwarded) Write(p []byte) (int, error) { return c.data.Write(p) }

// CloseWrite tells the pod that no more comes.
func (c *Forwarded) CloseWrite() error { return c.data.Close() }

// Err waits until the runtime is done with the connection, or ctx ends, and returns
// its error: nothing listens, or the connection to the pod broke.
func (c *Forwarded) Err(ctx context.Context) error {
	select {
	case err := <-c.told:
		c.told <- err
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the connection, whatever was not sent or read yet.
func (c *Forwarded) Close() {
	_ = c.data.Reset() // of a session that is gone
	_ = c.fault.Reset()
	c.session.RemoveStreams(c.data, c.fault)
}

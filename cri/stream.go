package cri

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Streaming connects to the runtime's streaming server, for exec, attach and port-forward.
type Streaming struct {
	runtime runtimeapi.RuntimeServiceClient
	timeout time.Duration
}

// NotStreamedError reports that podrun could not reach the runtime's streaming server, or that
// the server does not support the protocol. The command did not run.
type NotStreamedError struct{ Err error }

// Error returns a text with the reason.
func (e *NotStreamedError) Error() string {
	return "connect to the runtime's streams: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *NotStreamedError) Unwrap() error { return e.Err }

// upgraded opens a SPDY connection with the given protocol to a URL of the runtime's streaming
// server. The caller must close the connection before the session, because closing the session
// waits for input that no process reads. The error is a *NotStreamedError, or ctx's cause.
func (c Streaming) upgraded(ctx context.Context, address, protocol string) (net.Conn, httpstream.Connection, error) {
	conn, err := within(ctx, c.timeout, func(ctx context.Context) (net.Conn, error) { return upgrade(ctx, address, protocol) })
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, &NotStreamedError{err}
	}
	session, err := spdy.NewClientConnection(conn)
	if err != nil {
		conn.Close()
		return nil, nil, &NotStreamedError{err}
	}
	return conn, session, nil
}

// upgrade requests a SPDY connection from the streaming server.
func upgrade(ctx context.Context, address, protocol string) (net.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the runtime returned the URL %q: %w", address, err)
	}
	conn, err := dialStream(ctx, u)
	if err != nil {
		return nil, err
	}
	unblock := context.AfterFunc(ctx, func() { conn.Close() })
	r, err := switchProtocol(conn, u, protocol)
	if !unblock() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &bufferedConn{conn, r}, nil
}

// dialStream connects to the server directly, because a proxy from the environment does not apply to the host's
// own runtime. podrun trusts the URL, because it received the URL over the runtime's socket. On a loopback
// address, dialStream does not verify containerd's self-signed certificate, because podrun trusts this address
// regardless of a certificate.
func dialStream(ctx context.Context, u *url.URL) (net.Conn, error) {
	switch u.Scheme {
	case "http":
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")))
	case "https":
		ip := net.ParseIP(u.Hostname())
		local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: local}}
		return d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	}
	return nil, fmt.Errorf("the runtime returned the URL %s, which is neither http nor https", u.Redacted())
}

func switchProtocol(conn net.Conn, u *url.URL, protocol string) (*bufio.Reader, error) {
	req := &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: http.Header{}}
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	req.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	spoken := resp.Header.Get(httpstream.HeaderProtocolVersion)
	switch {
	case resp.StatusCode != http.StatusSwitchingProtocols:
		// Ignore an error: the text only explains the status, which is known.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return nil, fmt.Errorf("it returned %d %s: %s", resp.StatusCode, http.StatusText(resp.StatusCode), strings.TrimSpace(string(text)))
	case spoken != protocol:
		return nil, fmt.Errorf("it uses the protocol %q instead of %s", spoken, protocol)
	}
	return r, nil
}

// bufferedConn first returns the data that arrived together with the response.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

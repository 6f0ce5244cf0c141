package cri

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Streams are the standard streams of a command in a container. With a nil In,
// the command reads no input.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// NotStreamedError reports that the runtime's streaming server could not be
// reached or does not speak the protocol. The command was not run.
type NotStreamedError struct{ Err error }

// Error says why.
func (e *NotStreamedError) Error() string {
	return "connect to the runtime's streams: " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *NotStreamedError) Unwrap() error { return e.Err }

// ExecError is the runtime's error for a command that it could not run.
type ExecError struct{ Message string }

// Error is the runtime's text.
func (e *ExecError) Error() string { return e.Message }

// Exec runs a command in a container, with its streams connected while it runs,
// and returns its exit code. The errors are the call's own (a gRPC status), a
// *NotStreamedError, an *ExecError, ctx's cause, or that of a connection that
// broke.
//
// When ctx ends the connection is cut; the command itself goes on, as after a
// kubectl exec that was cut (k/k#89031): the CRI has no call that would end it.
// A read from In that does not end outlives Exec. Of a command that leaves much
// of its input unread, containerd 1.6 may never say that it has ended: it waits
// for that input to be read.
func (c *Client) Exec(ctx context.Context, id string, command []string, s Streams) (int, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ExecResponse, error) {
		return c.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: command, Stdin: s.In != nil, Stdout: true, Stderr: true,
		})
	})
	if err != nil {
		return 0, err
	}
	conn, err := within(ctx, c.timeout, func(ctx context.Context) (net.Conn, error) { return upgrade(ctx, resp.GetUrl()) })
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, &NotStreamedError{err}
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	code, err := converse(ctx, conn, s)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return code, err
}

// upgrade asks the streaming server for a SPDY connection that speaks the
// fourth version of the remote command protocol, the first that tells exit
// codes; containerd and CRI-O both have it, and no later one over SPDY.
func upgrade(ctx context.Context, address string) (net.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the runtime returned the URL %q: %w", address, err)
	}
	conn, err := dialStream(ctx, u)
	if err != nil {
		return nil, err
	}
	unblock := context.AfterFunc(ctx, func() { conn.Close() })
	r, err := switchProtocol(conn, u)
	if !unblock() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &bufferedConn{conn, r}, nil
}

// dialStream connects to the server itself: a proxy of the environment is not
// for the host's own runtime. The URL came over the runtime's socket. On
// loopback its certificate, which containerd signs itself, proves nothing more.
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

func switchProtocol(conn net.Conn, u *url.URL) (*bufio.Reader, error) {
	req := &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: http.Header{}}
	req.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	req.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	req.Header.Set(httpstream.HeaderProtocolVersion, remotecommand.StreamProtocolV4Name)
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
		// The text only explains the status, which is there.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return nil, fmt.Errorf("it answered %s: %s", resp.Status, strings.TrimSpace(string(text)))
	case spoken != remotecommand.StreamProtocolV4Name:
		return nil, fmt.Errorf("it speaks %q, not %s", spoken, remotecommand.StreamProtocolV4Name)
	}
	return r, nil
}

// bufferedConn reads first what came right behind the response.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// converse passes the streams on until the command has ended.
func converse(ctx context.Context, conn net.Conn, s Streams) (int, error) {
	session, err := spdy.NewClientConnection(conn)
	if err != nil {
		return 0, &NotStreamedError{err}
	}
	defer session.Close()
	// First, or closing the session waits for input that no process reads.
	defer conn.Close()
	kinds := []string{corev1.StreamTypeError, corev1.StreamTypeStdout, corev1.StreamTypeStderr}
	if s.In != nil {
		kinds = append(kinds, corev1.StreamTypeStdin)
	}
	streams, err := open(ctx, session, kinds)
	if err != nil {
		return 0, err
	}
	if in := streams[corev1.StreamTypeStdin]; in != nil {
		go func() {
			// A command may end without having read its input.
			_, _ = io.Copy(in, s.In)
			_ = in.Close()
		}()
	}
	var wait sync.WaitGroup
	errs := make([]error, 2)
	wait.Go(func() { errs[0] = pass(s.Out, streams[corev1.StreamTypeStdout]) })
	wait.Go(func() { errs[1] = pass(s.Err, streams[corev1.StreamTypeStderr]) })
	end, err := io.ReadAll(io.LimitReader(streams[corev1.StreamTypeError], maxMessage))
	if err != nil {
		return 0, fmt.Errorf("read the command's exit status: %w", err)
	}
	wait.Wait()
	code, err := exitOf(end)
	return code, errors.Join(append(errs, err)...)
}

// open makes all streams before anything is sent: the server reads none before
// it has all, and its queue can fill up (k/k#16373).
func open(ctx context.Context, session httpstream.Connection, kinds []string) (map[string]httpstream.Stream, error) {
	streams := map[string]httpstream.Stream{}
	done := make(chan error, 1)
	// It waits for a server that does not answer, though its connection is closed.
	go func() {
		for _, kind := range kinds {
			stream, err := session.CreateStream(http.Header{corev1.StreamType: {kind}})
			if err != nil {
				done <- fmt.Errorf("open the command's %s: %w", kind, err)
				return
			}
			streams[kind] = stream
		}
		done <- nil
	}()
	select {
	case err := <-done:
		return streams, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pass copies a command's output. What can't be written is still read, or the
// other streams would stop too (k/k#96339).
func pass(to io.Writer, from io.Reader) error {
	_, err := io.Copy(to, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from)
		return fmt.Errorf("pass the command's output on: %w", err)
	}
	return nil
}

// exitOf reads the exit code out of what came by the error stream: a status as
// the API server's, with the code among its causes. No word at all is not a
// success, as kubectl took it (k/k#73056): a connection was lost.
func exitOf(end []byte) (int, error) {
	if len(end) == 0 {
		return 0, errors.New("the runtime closed the connection before the command ended")
	}
	var s metav1.Status
	if err := json.Unmarshal(end, &s); err != nil {
		return 0, fmt.Errorf("read the command's exit status: %w", err)
	}
	if s.Status == metav1.StatusSuccess {
		return 0, nil
	}
	if s.Reason == remotecommand.NonZeroExitCodeReason && s.Details != nil {
		for _, cause := range s.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); cause.Type == remotecommand.ExitCodeCauseType && err == nil {
				return code, nil
			}
		}
	}
	return 0, &ExecError{s.Message}
}

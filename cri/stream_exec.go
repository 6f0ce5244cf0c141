package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// Streams are the standard streams of a process in a container. With a nil In, the
// process reads no input.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// TTY says that the process has a terminal, whose output all comes by Out.
	TTY bool
	// Sizes are those of the user's terminal, which that of the process takes; nil
	// for none.
	Sizes <-chan TerminalSize
}

// StreamKinds are the streams that a process has. With a TTY there is no stderr.
type StreamKinds struct{ Stdin, Stdout, Stderr, TTY bool }

func (s Streams) kinds() StreamKinds {
	return StreamKinds{Stdin: s.In != nil, Stdout: true, Stderr: !s.TTY, TTY: s.TTY}
}

// TerminalSize is a terminal's size in characters. Its JSON is that of the remote
// command protocol.
type TerminalSize struct{ Width, Height uint16 }

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
	url, err := c.ExecURL(ctx, id, command, s.kinds())
	if err != nil {
		return 0, err
	}
	r := &refusal{}
	code, err := c.stream(ctx, url, r.watch(s))
	if err != nil {
		return 0, errors.Join(err, r.pass())
	}
	return r.result(code, command)
}

// ExecURL asks the runtime for a URL of its streaming server by which one command can
// be run with these streams.
func (c *Client) ExecURL(ctx context.Context, id string, command []string, k StreamKinds) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ExecResponse, error) {
		return c.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: command, Stdin: k.Stdin, Stdout: k.Stdout, Stderr: k.Stderr, Tty: k.TTY,
		})
	})
	return resp.GetUrl(), err
}

// Attach connects the streams to those of a container's own process until it ends. TTY
// must be that of the container's config. The errors are those of Exec.
func (c *Client) Attach(ctx context.Context, id string, s Streams) error {
	url, err := c.AttachURL(ctx, id, s.kinds())
	if err != nil {
		return err
	}
	_, err = c.stream(ctx, url, s)
	return err
}

// AttachURL is for Attach what ExecURL is for Exec.
func (c *Client) AttachURL(ctx context.Context, id string, k StreamKinds) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.AttachResponse, error) {
		return c.Runtime.Attach(ctx, &runtimeapi.AttachRequest{
			ContainerId: id, Stdin: k.Stdin, Stdout: k.Stdout, Stderr: k.Stderr, Tty: k.TTY,
		})
	})
	return resp.GetUrl(), err
}

// stream speaks the fourth version of the remote command protocol, the first that
// carries exit codes; containerd and CRI-O both have it, and no later one over SPDY.
func (c *Client) stream(ctx context.Context, url string, s Streams) (int, error) {
	conn, session, err := c.upgraded(ctx, url, remotecommand.StreamProtocolV4Name)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	defer conn.Close()
	inner, cancel := context.WithCancel(ctx) // what still writes to the session ends
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	code, err := converse(inner, session, s)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return code, err
}

// converse passes the streams on until the command has ended.
func converse(ctx context.Context, session httpstream.Connection, s Streams) (int, error) {
	kinds := []string{corev1.StreamTypeError, corev1.StreamTypeStdout}
	if s.TTY {
		kinds = append(kinds, corev1.StreamTypeResize)
	} else {
		kinds = append(kinds, corev1.StreamTypeStderr)
	}
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
	if to := streams[corev1.StreamTypeResize]; to != nil && s.Sizes != nil {
		go resize(ctx, to, s.Sizes)
	}
	var wait sync.WaitGroup
	errs := make([]error, 2)
	wait.Go(func() { errs[0] = pass(s.Out, streams[corev1.StreamTypeStdout]) })
	if from := streams[corev1.StreamTypeStderr]; from != nil {
		wait.Go(func() { errs[1] = pass(s.Err, from) })
	}
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

// resize sends a terminal's sizes, each a JSON object, until ctx ends or the
// connection is closed.
func resize(ctx context.Context, to io.Writer, sizes <-chan TerminalSize) {
	encoder := json.NewEncoder(to)
	for {
		select {
		case size, ok := <-sizes:
			if !ok || encoder.Encode(size) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// pass copies a command's output. What cannot be written is still read, or the
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

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

// Streams are the standard streams of a process in a container. If In is nil, the process
// reads no input.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// TTY means that the process has a terminal. Out then receives all of its output.
	TTY bool
	// Sizes delivers the sizes of the user's terminal. podrun applies them to the process's
	// terminal. It is nil if there are none.
	Sizes <-chan TerminalSize
}

// StreamKinds selects the streams of a process. With a TTY, there is no stderr.
type StreamKinds struct{ Stdin, Stdout, Stderr, TTY bool }

func (s Streams) kinds() StreamKinds {
	return StreamKinds{Stdin: s.In != nil, Stdout: true, Stderr: !s.TTY, TTY: s.TTY}
}

// TerminalSize is the size of a terminal in characters. The remote command protocol defines its
// JSON.
type TerminalSize struct{ Width, Height uint16 }

// ExecError is the runtime's error for a command that could not be started.
type ExecError struct{ Message string }

// Error returns the runtime's message.
func (e *ExecError) Error() string { return e.Message }

// Exec runs a command in a container and returns its exit code. It connects the command's streams
// while the command runs. The error is a gRPC status of the call, a *NotStreamedError, an
// *ExecError, ctx's cause, or the error of a broken connection.
//
// When ctx ends, Exec closes the connection. The command continues to run, as after an
// interrupted kubectl exec (k/k#89031), because the CRI has no call that stops it. A read from In
// that is blocked outlives Exec. If a command leaves much of its input unread, containerd 1.6 may
// never report that the command has exited, because it waits until the input has been read.
func (c Streaming) Exec(ctx context.Context, id string, command []string, s Streams) (int, error) {
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

// ExecURL requests a URL of the runtime's streaming server. A client can use the URL to run the
// command once with these streams.
func (c Streaming) ExecURL(ctx context.Context, id string, command []string, k StreamKinds) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.ExecResponse, error) {
		return c.runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: command, Stdin: k.Stdin, Stdout: k.Stdout, Stderr: k.Stderr, Tty: k.TTY,
		})
	})
	return resp.GetUrl(), err
}

// Attach connects the streams to those of a container's main process, until the process
// exits. s.TTY must equal the value in the container's config. The errors are those of Exec.
func (c Streaming) Attach(ctx context.Context, id string, s Streams) error {
	url, err := c.AttachURL(ctx, id, s.kinds())
	if err != nil {
		return err
	}
	_, err = c.stream(ctx, url, s)
	return err
}

// AttachURL is for Attach like ExecURL for Exec.
func (c Streaming) AttachURL(ctx context.Context, id string, k StreamKinds) (string, error) {
	resp, err := within(ctx, c.timeout, func(ctx context.Context) (*runtimeapi.AttachResponse, error) {
		return c.runtime.Attach(ctx, &runtimeapi.AttachRequest{
			ContainerId: id, Stdin: k.Stdin, Stdout: k.Stdout, Stderr: k.Stderr, Tty: k.TTY,
		})
	})
	return resp.GetUrl(), err
}

// stream uses version 4 of the remote command protocol, which is the first version that
// transmits exit codes. Over SPDY, containerd and CRI-O support no later version.
func (c Streaming) stream(ctx context.Context, url string, s Streams) (int, error) {
	conn, session, err := c.upgraded(ctx, url, remotecommand.StreamProtocolV4Name)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	defer conn.Close()
	// When inner ends, the goroutines that still write to the session stop.
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	code, err := converse(inner, session, s)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return code, err
}

// converse copies the streams until the command has exited.
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
			// The error is ignored, because a command may exit without having read its input.
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

// open opens all streams before anything is sent. The server reads no stream until all are open,
// and its queue could become full (k/k#16373).
func open(ctx context.Context, session httpstream.Connection, kinds []string) (map[string]httpstream.Stream, error) {
	streams := map[string]httpstream.Stream{}
	done := make(chan error, 1)
	// Opening a stream blocks while the server does not respond, even if the stream's connection
	// has been closed.
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

// resize sends the sizes of the terminal, each as a JSON object, until ctx ends or the
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

// pass copies a command's output. After a failed write, it continues to read. Otherwise the
// other streams would block, too (k/k#96339).
func pass(to io.Writer, from io.Reader) error {
	_, err := io.Copy(to, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from)
		return fmt.Errorf("write the command's output: %w", err)
	}
	return nil
}

// exitOf reads the exit code from the content of the error stream. The content is a Status of the
// Kubernetes API, with the exit code in its causes. An empty stream means that the connection was
// lost. It is not a success, as it was in older kubectl versions (k/k#73056).
func exitOf(end []byte) (int, error) {
	if len(end) == 0 {
		return 0, errors.New("the runtime closed the connection before the command exited")
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

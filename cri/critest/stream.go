package critest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podrun/podrun/cri/critest/ash"
)

// Exec implements the CRI. The URL is on loopback, is valid for one command, and becomes
// invalid when the container exits. It listens on a real socket, so it cannot be used with
// synctest.
func (rt *Runtime) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.streamed(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	url, err := rt.endpoint(c.process.ctx, "exec", func(w http.ResponseWriter, req *http.Request) {
		rt.converse(c.process.ctx, w, req, r, "ExecStream", func(streams map[string]httpstream.Stream) metav1.Status { return rt.stream(c, r, streams) })
	})
	return &runtimeapi.ExecResponse{Url: url}, err
}

// Attach implements the CRI; its URL is like that of Exec. The streams receive the future
// output of the container's process, and stdin is connected to the process's input.
func (rt *Runtime) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.streamed(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	p := c.process
	url, err := rt.endpoint(p.ctx, "attach", func(w http.ResponseWriter, req *http.Request) {
		rt.converse(p.ctx, w, req, r, "AttachStream", func(streams map[string]httpstream.Stream) metav1.Status {
			stdout, stderr := streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr]
			if stderr == nil {
				stderr = stdout
			}
			defer p.output.add(stdout, stderr)()
			if in := streams[corev1.StreamTypeStdin]; in != nil && c.config.GetStdin() {
				go func() {
					_, err := io.Copy(p.stdin, in)
					if err == nil && c.config.GetStdinOnce() {
						p.stdin.Close()
					}
				}()
			}
			<-p.done
			return metav1.Status{Status: metav1.StatusSuccess}
		})
	})
	return &runtimeapi.AttachResponse{Url: url}, err
}

// streamed returns the container with the given ID, which must be running. The caller must hold
// rt.mu.
func (rt *Runtime) streamed(id string) (*container, error) {
	c, err := rt.findContainer(id)
	if err != nil {
		return nil, rt.options.profile.noContainerStreams(id)
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, rt.options.profile.notRunning(c, "")
	}
	return c, nil
}

// endpoint listens for one connection, until ctx ends or the runtime is closed, and returns its
// URL. A client may never connect, for example because its command was interrupted.
func (rt *Runtime) endpoint(ctx context.Context, kind string, serve http.HandlerFunc) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", status.Errorf(codes.Unknown, "failed to prepare %s endpoint: %v", kind, err)
	}
	path := "/" + kind + "/" + digest(l.Addr().String())[:8]
	mux := http.NewServeMux()
	server := &http.Server{Handler: mux}
	// The server does not close hijacked connections, so the handler returns when its container or
	// sandbox ends.
	mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
		l.Close()
		serve(w, req)
	})
	context.AfterFunc(ctx, func() { server.Close() })
	context.AfterFunc(rt.closing, func() { server.Close() })
	rt.busy.Go(func() {
		// Serve returns an error only when the server is closed.
		server.Serve(l)
	})
	return "http://" + l.Addr().String() + path, nil
}

// asked is implemented by the requests that select streams.
type asked interface {
	GetStdin() bool
	GetStdout() bool
	GetStderr() bool
	GetTty() bool
}

// converse waits until the client has opened the streams, or gone ends. It then serves the streams,
// and sends the status that serve returns to the client. Faults for streams have their own methods,
// ExecStream and AttachStream. Hang and Slow apply before the connection is upgraded. The others
// apply after the streams have been served.
func (rt *Runtime) converse(gone context.Context, w http.ResponseWriter, req *http.Request, a asked, method string, serve func(map[string]httpstream.Stream) metav1.Status) {
	f := rt.strikeStream(method)
	if f.before(req.Context()) != nil {
		// If the client has disconnected, it does not receive this response.
		http.Error(w, "fault injected", http.StatusInternalServerError)
		return
	}
	opened, session := upgrade(w, req, remotecommand.StreamProtocolV4Name)
	if session == nil {
		// upgrade has already sent an error to the client.
		return
	}
	defer session.Close()
	want := 1
	for _, one := range []bool{a.GetStdin(), a.GetStdout(), a.GetStderr(), a.GetTty()} {
		if one {
			want++
		}
	}
	streams := map[string]httpstream.Stream{}
	for len(streams) < want {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-session.CloseChan():
			return
		case <-gone.Done():
			return
		case <-time.After(30 * time.Second):
			return
		}
	}
	status := serve(streams)
	switch {
	case f == nil:
	case f.When == Cut:
		return
	case f.When == EffectThenHang:
		<-session.CloseChan()
		return
	case f.When == After:
		status = metav1.Status{Status: metav1.StatusFailure, Message: "fault injected"}
	}
	end, err := json.Marshal(status)
	if err != nil {
		end = []byte(err.Error())
	}
	// If the client has disconnected, it does not receive the status.
	_, _ = streams[corev1.StreamTypeError].Write(end)
	for _, s := range streams {
		s.Close()
	}
	<-session.CloseChan()
}

// upgrade accepts a SPDY connection. It returns nil if the client requests another protocol.
func upgrade(w http.ResponseWriter, req *http.Request, protocol string) (<-chan httpstream.Stream, httpstream.Connection) {
	if _, err := httpstream.Handshake(req, w, []string{protocol}); err != nil {
		return nil, nil
	}
	opened := make(chan httpstream.Stream, 8)
	session := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, replySent <-chan struct{}) error {
		go func() {
			<-replySent
			opened <- s
		}()
		return nil
	})
	return opened, session
}

// stream runs a command and returns its status as a streaming server does. The command is
// killed with its container, but not when its client disconnects.
func (rt *Runtime) stream(c *container, r *runtimeapi.ExecRequest, streams map[string]httpstream.Stream) metav1.Status {
	cmd, stdout, stderr := r.GetCmd(), streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr]
	if r.GetTty() {
		stderr = stdout
	}
	rt.mu.Lock()
	answer := rt.scriptedExec(c, cmd)
	rt.mu.Unlock()
	code := 0
	switch {
	case answer != nil:
		resp, err := answer.run(c.process.ctx)
		if err != nil {
			return notRun(err)
		}
		fmt.Fprintf(stdout, "%s", resp.GetStdout())
		fmt.Fprintf(stderr, "%s", resp.GetStderr())
		code = int(resp.GetExitCode())
	case !ash.Known(cmd):
		rt.mu.Lock()
		defer rt.mu.Unlock()
		if !rt.options.profile.ExecPrints {
			return notRun(rt.notExecutable(c, "exec", cmd))
		}
		fmt.Fprint(stderr, printed("exec failed", rt.whyNot(c, cmd)))
		code = 255
	default:
		proc := rt.ashProcess(c, cmd)
		proc.Stdin, proc.Stdout, proc.Stderr = nil, stdout, stderr
		if in := streams[corev1.StreamTypeStdin]; in != nil {
			proc.Stdin = in
		}
		code = ash.Run(c.process.ctx, proc)
	}
	if code == 0 {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
		Message: fmt.Sprintf("command terminated with non-zero exit code: error executing command %v, exit code %d", cmd, code),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
	}
}

func notRun(err error) metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("Internal error occurred: error executing command in container: %v", err),
	}
}

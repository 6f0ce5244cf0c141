package critest

import (
	"context"
	"encoding/json"
	"fmt"
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

// Exec implements the CRI: the URL is on loopback, good for one command, and
// gone with its container. It really listens, so it is not for synctest.
func (rt *Runtime) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c, err := rt.findContainer(r.GetContainerId())
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "failed to find container %q in store: not found", r.GetContainerId())
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.Unknown, "container is in %s state", c.state)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to prepare exec endpoint: %v", err)
	}
	token := digest(l.Addr().String())[:8]
	mux := http.NewServeMux()
	server := &http.Server{Handler: mux}
	// A hijacked connection is not the server's to close: the command that ends
	// with its container lets go of it.
	mux.HandleFunc("/exec/"+token, func(w http.ResponseWriter, req *http.Request) {
		l.Close()
		rt.serveExec(w, req, c, r)
	})
	context.AfterFunc(c.process.ctx, func() { server.Close() })
	rt.busy.Go(func() {
		server.Serve(l) // ends with an error only when closed
	})
	return &runtimeapi.ExecResponse{Url: "http://" + l.Addr().String() + "/exec/" + token}, nil
}

// serveExec runs one command over the streams that the client opens.
func (rt *Runtime) serveExec(w http.ResponseWriter, req *http.Request, c *container, r *runtimeapi.ExecRequest) {
	if _, err := httpstream.Handshake(req, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return // the client was told
	}
	opened := make(chan httpstream.Stream, 8)
	session := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, replySent <-chan struct{}) error {
		go func() {
			<-replySent
			opened <- s
		}()
		return nil
	})
	if session == nil {
		return // likewise
	}
	defer session.Close()
	want := 1
	for _, asked := range []bool{r.GetStdin(), r.GetStdout(), r.GetStderr()} {
		if asked {
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
		case <-c.process.ctx.Done():
			return
		case <-time.After(30 * time.Second):
			return
		}
	}
	end, err := json.Marshal(rt.stream(c, r.GetCmd(), streams))
	if err != nil {
		end = []byte(err.Error())
	}
	// A client that went away has no use for it.
	_, _ = streams[corev1.StreamTypeError].Write(end)
	for _, s := range streams {
		s.Close()
	}
	<-session.CloseChan()
}

// stream runs a command, which dies with its container and not with its client,
// and says how it ended as a streaming server does.
func (rt *Runtime) stream(c *container, cmd []string, streams map[string]httpstream.Stream) metav1.Status {
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
		fmt.Fprintf(streams[corev1.StreamTypeStdout], "%s", resp.GetStdout())
		fmt.Fprintf(streams[corev1.StreamTypeStderr], "%s", resp.GetStderr())
		code = int(resp.GetExitCode())
	case !ash.Known(cmd):
		doing := fmt.Sprintf("failed to exec in container: failed to start exec %q: OCI runtime exec failed: exec failed: ", digest(fmt.Sprint(cmd)))
		rt.mu.Lock()
		defer rt.mu.Unlock()
		return notRun(rt.notExecutable(c, doing, cmd))
	default:
		proc := rt.ashProcess(c, cmd)
		proc.Stdin, proc.Stdout, proc.Stderr = nil, streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr]
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

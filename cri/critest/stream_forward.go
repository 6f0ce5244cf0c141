package critest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// PortForward implements the CRI. It connects to ports of the pod's address, on which a test can
// listen.
func (rt *Runtime) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	host, refused := rt.forwardHost(r.GetPodSandboxId())
	if refused != nil && !rt.options.profile.ForwardsLate {
		return nil, refused
	}
	url, err := rt.endpoint(context.Background(), "portforward", func(w http.ResponseWriter, req *http.Request) { forward(w, req, host, refused) })
	return &runtimeapi.PortForwardResponse{Url: url}, err
}

// forwardHost returns the address of a ready sandbox. The caller must hold rt.mu.
func (rt *Runtime) forwardHost(id string) (string, error) {
	s, err := rt.findSandbox(id)
	switch {
	case err != nil && rt.options.profile.crio():
		return "", fmt.Errorf("PodSandbox with ID starting with %s not found: ID does not exist", id)
	case err != nil:
		return "", status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", id)
	case !s.ready && rt.options.profile.crio():
		return "", fmt.Errorf("sandbox %s is not running", id)
	case !s.ready:
		return "", status.Error(codes.Unknown, "sandbox container is not running")
	case len(s.ips) > 0:
		return s.ips[0].String(), nil
	}
	return "127.0.0.1", nil
}

// forward connects each pair of streams to a port of host. If refused is set, it sends this
// error to the client instead.
func forward(w http.ResponseWriter, req *http.Request, host string, refused error) {
	opened, session := upgrade(w, req, "portforward.k8s.io")
	if session == nil {
		return
	}
	defer session.Close()
	waiting := map[string]httpstream.Stream{} // error streams, by request ID
	for {
		select {
		case s := <-opened:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if other := waiting[id]; other == nil {
				waiting[id] = s
				continue
			} else if delete(waiting, id); s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				go connect(host, refused, other, s)
			} else {
				go connect(host, refused, s, other)
			}
		case <-session.CloseChan():
			return
		}
	}
}

// connect copies in both directions. If refused is set, it sends this error to the client
// instead.
func connect(host string, refused error, data, fault httpstream.Stream) {
	defer data.Close()
	defer fault.Close()
	if refused != nil {
		fmt.Fprintf(fault, "an error occurred when forwarding port: %v", refused)
		return
	}
	port := data.Headers().Get(corev1.PortHeader)
	conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		fmt.Fprintf(fault, "an error occurred when forwarding port: failed to connect to localhost:%s inside namespace: %v", port, err)
		return
	}
	defer conn.Close()
	go func() {
		// The error is ignored, because the copy in the other direction also reports a broken
		// connection.
		io.Copy(conn, data)
		conn.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(data, conn)
}

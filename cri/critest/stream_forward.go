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

// PortForward implements the CRI: the ports are those of the pod's address, on which a
// test may really listen.
func (rt *Runtime) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	s, err := rt.findSandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", r.GetPodSandboxId())
	}
	if !s.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container is not running")
	}
	host := "127.0.0.1"
	if len(s.ips) > 0 {
		host = s.ips[0].String()
	}
	url, err := rt.endpoint(context.Background(), "portforward", func(w http.ResponseWriter, req *http.Request) { forward(w, req, host) })
	return &runtimeapi.PortForwardResponse{Url: url}, err
}

// forward connects each pair of streams to a port of the host.
func forward(w http.ResponseWriter, req *http.Request, host string) {
	opened, session := upgrade(w, req, "portforward.k8s.io")
	if session == nil {
		return
	}
	defer session.Close()
	waiting := map[string]httpstream.Stream{} // error streams, by the request's ID
	for {
		select {
		case s := <-opened:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if other := waiting[id]; other == nil {
				waiting[id] = s
				continue
			} else if delete(waiting, id); s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				go connect(host, other, s)
			} else {
				go connect(host, s, other)
			}
		case <-session.CloseChan():
			return
		}
	}
}

// connect copies both ways.
func connect(host string, data, fault httpstream.Stream) {
	defer data.Close()
	defer fault.Close()
	port := data.Headers().Get(corev1.PortHeader)
	conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		fmt.Fprintf(fault, "an error occurred when forwarding port: failed to connect to localhost:%s inside namespace: %v", port, err)
		return
	}
	defer conn.Close()
	go func() {
		io.Copy(conn, data) // the other direction reports a broken connection
		conn.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(data, conn)
}

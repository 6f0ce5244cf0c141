package report

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/patience"
)

// readFirst is a connection that first returns the data that arrived together with the response.
type readFirst struct {
	net.Conn
	r *bufio.Reader
}

func (c readFirst) Read(p []byte) (int, error) { return c.r.Read(p) }

// upgraded opens a SPDY connection to the API, as a client of the kubelet does.
func upgraded(t *testing.T, socket, path, protocol string) (httpstream.Connection, *http.Response) {
	t.Helper()
	conn, err := nodeapi.DialUnix(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	patience.Deadline(t, conn, patience.OnFake)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: podrun\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: %s\r\n\r\n", path, protocol)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, resp
	}
	session, err := spdy.NewClientConnection(readFirst{conn, r})
	if err != nil {
		t.Fatal(err)
	}
	return session, resp
}

// opened opens streams of the given types.
func opened(t *testing.T, session httpstream.Connection, header http.Header, kinds ...string) map[string]httpstream.Stream {
	t.Helper()
	out := map[string]httpstream.Stream{}
	for _, kind := range kinds {
		h := header.Clone()
		h.Set(corev1.StreamType, kind)
		stream, err := session.CreateStream(h)
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = stream
	}
	return out
}

// TestServeAPIInside checks that clients of the API's socket can run commands in containers,
// attach to them and forward ports, with the kubelet's paths and protocols.
func TestServeAPIInside(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dir := rig.DirWith(t, "web.yaml", apiPod)
	get := rig.API(t, r, serve.Options{Dirs: []string{dir}})
	rig.Eventually(t, "the pod runs", func() bool {
		_, body := get("/pods")
		return strings.Contains(body, `"phase":"Running"`)
	})
	socket := r.Engine().Layout().APISocket()

	session, _ := upgraded(t, socket, "/exec/default/web/app?command=sh&command=-c&command=echo+out%3Becho+err+%3E%262%3Bexit+3&output=1&error=1", "v4.channel.k8s.io")
	streams := opened(t, session, http.Header{}, corev1.StreamTypeError, corev1.StreamTypeStdout, corev1.StreamTypeStderr)
	for kind, want := range map[string]string{corev1.StreamTypeStdout: "out\n", corev1.StreamTypeStderr: "err\n"} {
		if data, err := io.ReadAll(streams[kind]); string(data) != want {
			t.Errorf("%s: %q, %v", kind, data, err)
		}
	}
	if end, err := io.ReadAll(streams[corev1.StreamTypeError]); !strings.Contains(string(end), `"message":"3"`) {
		t.Errorf("%q, %v", end, err)
	}

	session, _ = upgraded(t, socket, "/attach/default/web/app?output=1", "v4.channel.k8s.io")
	opened(t, session, http.Header{}, corev1.StreamTypeError, corev1.StreamTypeStdout)
	session, _ = upgraded(t, socket, "/portForward/default/web", "portforward.k8s.io")
	ports := opened(t, session, http.Header{corev1.PortHeader: {"9"}, corev1.PortForwardRequestIDHeader: {"0"}}, corev1.StreamTypeError, corev1.StreamTypeData)
	if fault, err := io.ReadAll(ports[corev1.StreamTypeError]); !strings.Contains(string(fault), "failed to connect") {
		t.Errorf("%q, %v", fault, err)
	}

	for path, want := range map[string]int{
		"/exec/default/web/none?command=true&output=1":      http.StatusBadRequest,
		"/exec/default/none/app?command=true&output=1":      http.StatusNotFound,
		"/exec/default/web/app?command=true":                http.StatusBadRequest,
		"/exec/default/web/app?command=true&output=perhaps": http.StatusBadRequest,
		"/attach/default/web/app?output=1&error=1&tty=1":    http.StatusBadRequest,
		"/portForward/default/none":                         http.StatusNotFound,
	} {
		if _, resp := upgraded(t, socket, path, "v4.channel.k8s.io"); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
	if code, _ := get("/exec/default/web/app?command=true&output=1"); code != http.StatusBadRequest {
		t.Errorf("without an upgrade: %d", code)
	}
}

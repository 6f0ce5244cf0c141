package cri_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/test/patience"
)

// streamServer is a runtime that implements only Exec, which returns a URL.
type streamServer struct {
	runtimeapi.RuntimeServiceClient
	url string
}

func (s streamServer) Exec(context.Context, *runtimeapi.ExecRequest, ...grpc.CallOption) (*runtimeapi.ExecResponse, error) {
	return &runtimeapi.ExecResponse{Url: s.url}, nil
}

func execAt(ctx context.Context, url string, in io.Reader) (string, int, error) {
	var out strings.Builder
	c := cri.New(streamServer{url: url}, nil, 5*time.Second)
	code, err := c.Streaming.Exec(ctx, "id", []string{"true"}, cri.Streams{In: in, Out: &out, Err: io.Discard})
	return out.String(), code, err
}

// speaking is a server that accepts the streams of a command. It uses end to report the
// command's exit.
func speaking(streams int, end func(map[string]httpstream.Stream)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			return
		}
		opened := make(chan httpstream.Stream, streams)
		session := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
			go func() { <-replied; opened <- s }()
			return nil
		})
		all := map[string]httpstream.Stream{}
		for range streams {
			s := <-opened
			all[s.Headers().Get(corev1.StreamType)] = s
		}
		end(all)
		session.Close()
	})
}

// says returns a function that ends a command with the given status, after some output.
func says(status string) func(map[string]httpstream.Stream) {
	return func(all map[string]httpstream.Stream) {
		fmt.Fprint(all[corev1.StreamTypeStdout], "output")
		fmt.Fprint(all[corev1.StreamTypeError], status)
		for _, s := range all {
			s.Close()
		}
	}
}

func TestExecEnds(t *testing.T) {
	for _, c := range []struct {
		status, err string
		code        int
	}{
		{`{"status":"Success"}`, "", 0},
		{`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}`, "", 42},
		{`{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated"}`, "command terminated", 0},
		{`{"status":"Failure","reason":"InternalError","message":"no shim"}`, "no shim", 0},
		// old versions of kubectl reported success in this case (k/k#73056)
		{"", "the runtime closed the connection before the command exited", 0},
		{"exit 1", "read the command's exit status: invalid character", 0},
	} {
		server := httptest.NewServer(speaking(3, says(c.status)))
		out, code, err := execAt(t.Context(), server.URL+"/exec/token", nil)
		server.Close()
		if code != c.code || out != "output" || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: %q, code %d, %v; want code %d, %q", c.status, out, code, err, c.code, c.err)
		}
	}
}

// TestExecOverTLS checks that the client accepts the self-signed certificate of a runtime, but
// only on this host.
func TestExecOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(speaking(3, says(`{"status":"Success"}`)))
	defer server.Close()
	if out, _, err := execAt(t.Context(), server.URL, nil); err != nil || out != "output" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestExecInputUnread checks that Exec returns even if its input is endless, and the server neither
// reads nor closes it.
func TestExecInputUnread(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	server := httptest.NewServer(speaking(4, func(all map[string]httpstream.Stream) {
		// The test sends enough to fill all buffers on the way. It pauses because this process cannot
		// observe that the client's writes block. If the buffers are not full by then, the test still
		// passes, but does not test blocked writes.
		time.Sleep(200 * time.Millisecond)
		says(`{"status":"Success"}`)(all)
		<-over
	}))
	defer server.Close()
	done := make(chan error, 1)
	go func() {
		_, _, err := execAt(t.Context(), server.URL, endless{})
		done <- err
	}()
	if err := patience.Receive(t, "Exec returns", done); err != nil {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// raw starts a server that responds to each request with the given text. If the text is empty, it
// does not respond. It keeps the connection open until the test ends.
func raw(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			io.WriteString(conn, answer)
		}
	}()
	return "http://" + l.Addr().String() + "/exec/token"
}

// TestExecNotStreamed checks the error if a server does not connect the streams. The command must
// not run, and the error must contain the reason.
func TestExecNotStreamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// No other process can listen on the client's port while this connection exists.
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct{ url, want string }{
		{"http://" + client.LocalAddr().String(), "connection refused"},
		{"ftp://127.0.0.1/exec", "neither http nor https"},
		{"http://[::1", "missing ']'"},
		{raw(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\nno such token\n"), "it returned 404 Not Found: no such token"},
		{raw(t, "HTTP/1.1 101 Switching Protocols\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n\r\n"), `it uses the protocol "channel.k8s.io" instead of v4.channel.k8s.io`},
		{raw(t, "SSH-2.0-OpenSSH\r\n\r\n"), "malformed HTTP"},
	} {
		_, _, err := execAt(t.Context(), c.url, nil)
		if _, ok := errors.AsType[*cri.NotStreamedError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.url, err, c.want)
		}
	}
}

// TestExecCut checks that Exec returns the cause of its context, regardless of the server's
// response.
func TestExecCut(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	never := httptest.NewServer(speaking(3, func(map[string]httpstream.Stream) { <-over }))
	defer never.Close()
	for _, url := range []string{raw(t, ""), raw(t, "HTTP/1.1 101 Switching Protocols\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"), never.URL} {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		if _, _, err := execAt(ctx, url, nil); !errors.Is(err, cause) {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

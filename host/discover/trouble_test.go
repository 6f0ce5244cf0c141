package discover

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/patience"
)

// serve listens on a socket until the test ends. It passes each connection to answer.
func serve(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path)
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
			go answer(conn)
		}
	}()
	return path
}

// silent reads requests and never responds.
func silent(c net.Conn) { io.Copy(io.Discard, c) }

// For each reason why a runtime does not answer, podrun must quickly return a message of one
// sentence with a fix.
func TestRuntimeThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()

	other := filepath.Join(dir, "other.sock")
	lis, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go server.Serve(lis)
	t.Cleanup(server.Stop)

	for name, tc := range map[string]struct {
		path, message, hint string
		within              time.Duration
	}{
		"missing":    {filepath.Join(dir, "none.sock"), "does not exist", hintRunning("none.sock"), answerWithin},
		"no socket":  {plain, "is not a socket", hintCRI, answerWithin},
		"no server":  {dead, "no process listens on", hintRunning("dead.sock"), answerWithin},
		"other gRPC": {other, "does not implement CRI", hintCRI, answerWithin},
		"HTTP/1": {serve(t, func(c net.Conn) {
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"))
			c.Close()
		}), "does not speak gRPC", hintCRI, answerWithin},
		"silent": {serve(t, silent), "no answer within 5s", "", answerWithin + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := cri.Dial("unix://"+tc.path, "", 2*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			patience.Within(t, int(tc.within/time.Second), "the answer", func() {
				_, err = Read(context.Background(), client, nodeconfig.Default(), Options{})
			})
			var e *problem.Error
			if !errors.As(err, &e) || e.Kind != problem.Runtime {
				t.Fatalf("error %v is no problem.Error of kind Runtime", err)
			}
			if !strings.Contains(e.Error(), tc.message) || tc.hint != "" && e.Hint != tc.hint || e.Hint == "" {
				t.Errorf("got %q (%s), want %q (%s)", e, e.Hint, tc.message, tc.hint)
			}
		})
	}
}

// limited is a context with a distant deadline, which the test lets expire.
type limited struct {
	context.Context
	expired chan struct{}
}

func (l limited) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }
func (l limited) Done() <-chan struct{}       { return l.expired }

func (l limited) Err() error {
	select {
	case <-l.expired:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestReadWaitsForASilentRuntime checks that the first call of a command with a time limit
// fails at this limit, not earlier, and that the command reports that the runtime does not answer.
func TestReadWaitsForASilentRuntime(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(context.Context, *cri.Client) error{
		"Read": func(ctx context.Context, c *cri.Client) error {
			_, err := Read(ctx, c, nodeconfig.Default(), Options{})
			return err
		},
		"ReadBasics": func(ctx context.Context, c *cri.Client) error {
			_, err := ReadBasics(ctx, c, nodeconfig.Default())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := cri.Dial("unix://"+serve(t, silent), "", 2*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			unresponsive, ended := make(chan struct{}), make(chan error, 1)
			client.OnUnresponsive(func() { close(unresponsive) })
			ctx := limited{t.Context(), make(chan struct{})}
			go func() { ended <- read(ctx, client) }()
			patience.Receive(t, "the message about a runtime that does not answer", unresponsive)
			if len(ended) > 0 {
				t.Errorf("it failed before the limit expired: %v", <-ended)
				return
			}
			close(ctx.expired)
			if err := patience.Receive(t, "the end", ended); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("another error: %v", err)
			}
		})
	}
}

func TestReadIsCanceled(t *testing.T) {
	client, err := cri.Dial("unix://"+serve(t, silent), "", 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = Read(ctx, client, nodeconfig.Default(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the caller's cancellation", err)
	}
}

// Which error gRPC reports about the preface depends on how quickly the peer closes the
// connection.
func TestHangsUpAtOnce(t *testing.T) {
	for _, text := range []string{
		"connection error: desc = \"error reading server preface: EOF\"",
		"connection error: desc = \"transport: failed to write client preface: write unix: broken pipe\"",
	} {
		cause, hint := explain("", status.Error(codes.Unavailable, text), answerWithin)
		if cause.Error() != "the server does not speak gRPC" || hint != hintCRI {
			t.Errorf("%s: %v (%s)", text, cause, hint)
		}
	}
}

// The error for a missing socket must name the program that would serve it.
func TestHintRunning(t *testing.T) {
	for path, program := range map[string]string{
		"/run/crio/crio.sock": "is CRI-O running?", "unix:///run/containerd/containerd.sock": "is containerd running?", "/tmp/other.sock": "is the container runtime running?",
	} {
		if hint := hintRunning(path); !strings.HasPrefix(hint, program) {
			t.Errorf("%s: %s", path, hint)
		}
	}
}

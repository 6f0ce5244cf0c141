package nodeapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// TestSlowClient covers a client that follows a log and does not read: the server must
// disconnect it.
func TestSlowClient(t *testing.T) {
	ended := make(chan error, 1)
	b := testBackend(1)
	b.Logs = func(ctx context.Context, _ LogRequest, w io.Writer) error {
		line := []byte(strings.Repeat("x", 1<<16))
		for {
			if _, err := w.Write(line); err != nil {
				ended <- err
				return err
			}
		}
	}
	s, _, path := serveSocket(t, b)
	s.writeTimeout = 100 * time.Millisecond
	conn, err := DialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /containerLogs/a/b/c?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
	patience.Receive(t, "the stream ends", ended)
}

// TestClientLeaves checks that the server stops following a log when the client has
// disconnected, even if nothing is written.
func TestClientLeaves(t *testing.T) {
	b := testBackend(1)
	ended := make(chan struct{})
	b.Logs = func(ctx context.Context, _ LogRequest, w io.Writer) error {
		w.Write([]byte("x\n"))
		<-ctx.Done()
		close(ended)
		return nil
	}
	_, _, path := serveSocket(t, b)
	conn, err := DialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "GET /containerLogs/a/b/c?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
	bufio.NewReader(conn).ReadString('\n')
	conn.Close()
	patience.Receive(t, "the stream ends", ended)
}

func TestLimits(t *testing.T) {
	_, _, path := serveSocket(t, testBackend(1))
	request := func(text, want string) {
		t.Helper()
		conn, err := DialUnix(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		patience.Deadline(t, conn, patience.OnFake)
		// The server may close the connection before it has read the whole text.
		io.WriteString(conn, text)
		line, _ := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, want) {
			t.Errorf("answer %q, want %s", line, want)
		}
	}
	request("GET /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", "413")
	request("GET /pods HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 1<<17)+"\r\n\r\n", "431")
	request("nonsense\r\n\r\n", "400")
}

// TestConcurrency checks that the server refuses requests above the limit, and that concurrent
// requests cause only one call to the runtime.
func TestConcurrency(t *testing.T) {
	b := testBackend(1)
	var reads atomic.Int32
	release := make(chan struct{})
	b.Pods = func(context.Context) (*corev1.PodList, error) {
		reads.Add(1)
		<-release
		return &corev1.PodList{}, nil
	}
	_, c, _ := serveSocket(t, b)
	codes := make(chan int, 50)
	var all sync.WaitGroup
	for range maxAnswers + 10 {
		all.Go(func() {
			resp, err := c.Get("http://podrun/pods")
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			codes <- resp.StatusCode
		})
	}
	// Requests above the limit must get a response while the others are waiting.
	for range 10 {
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("answer %d", code)
		}
	}
	close(release)
	all.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("%d reads", n)
	}
}

func TestListenUnix(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	first, err := ListenUnix(Socket{Path: path, Group: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("with a group: %v %v", info.Mode(), err)
	}
	second, err := ListenUnix(Socket{Path: path}) // the socket remains, as after kill -9
	if err != nil {
		t.Fatal(err)
	}
	first.(*socket).UnixListener.Close()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, group, want string }{
		{path, "", "is not a socket"},
		{filepath.Join(dir, strings.Repeat("x", 120)), "", "longer than 107 bytes"},
		{filepath.Join(dir, "y"), "no-such-group", "no-such-group"},
	} {
		if _, err := ListenUnix(Socket{Path: test.path, Group: test.group}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.path, err)
		}
	}
	if data, _ := os.ReadFile(path); string(data) != "precious" {
		t.Error("a file that is not a socket was replaced")
	}
	if _, err := DialUnix(t.Context(), filepath.Join(dir, "none")); !IsAbsent(err) {
		t.Errorf("no server: %v", err)
	}
}

// TestSocketPathLength checks the longest socket path that the kernel accepts, 107 bytes and a
// NUL (unix(7)). podrun must be able to use it, and must refuse a longer one before it creates
// anything.
func TestSocketPathLength(t *testing.T) {
	dir := t.TempDir()
	// podrun first creates the socket under another name.
	for _, last := range []string{"x", "~"} {
		path := filepath.Join(dir, strings.Repeat("x", 106-len(dir)-1)+last)
		// The second socket must replace the first one.
		for range 2 {
			l, err := ListenUnix(Socket{Path: path})
			if err != nil {
				t.Fatalf("%d bytes: %v", len(path), err)
			}
			c, err := DialUnix(t.Context(), path)
			if err != nil {
				t.Fatalf("%d bytes: %v", len(path), err)
			}
			c.Close()
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%d bytes: %v %v", len(path), info.Mode(), err)
			}
			l.(*socket).UnixListener.Close() // the file of the socket remains, as after kill -9
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		path = filepath.Join(dir, "new", strings.Repeat("x", 108-len(dir)-len("/new/")))
		if _, err := ListenUnix(Socket{Path: path}); err == nil || !strings.Contains(err.Error(), "longer than 107 bytes") {
			t.Errorf("%d bytes: %v", len(path), err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestSocketLink covers the link that replaces the socket of an earlier release. podrun must remove
// the link together with the socket. The group must be able to traverse the socket's directories
// regardless of the umask.
func TestSocketLink(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	at := Socket{Path: filepath.Join(dir, "run-api", "1", "s.sock"), Link: filepath.Join(dir, "root", "serve", "s.sock"), Group: "12345"}
	if err := os.MkdirAll(filepath.Dir(at.Link), 0o750); err != nil {
		t.Fatal(err)
	}
	old, err := net.Listen("unix", at.Link)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	old.Close()
	defer syscall.Umask(syscall.Umask(0o077))
	// A podrun process without a group has created this directory.
	if err := os.MkdirAll(filepath.Dir(at.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := ListenUnix(at)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(at.Link); err != nil || to != at.Path {
		t.Errorf("link to %q, %v", to, err)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(filepath.Dir(at.Path)): 0o755, filepath.Dir(at.Path): 0o755, at.Path: 0o660} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want || path == at.Path && info.Sys().(*syscall.Stat_t).Gid != 12345 {
			t.Errorf("%s: %v %v, want %o", path, info, err, want)
		}
	}
	if c, err := DialUnix(t.Context(), at.Link); err != nil {
		t.Errorf("by the link: %v", err)
	} else {
		c.Close()
	}
	first.(*socket).UnixListener.Close() // the file of the socket remains, as after kill -9
	second, err := ListenUnix(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{at.Link, filepath.Dir(at.Path)} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if err := os.WriteFile(at.Link, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(at); err == nil || !strings.Contains(err.Error(), at.Link+" exists and is not a socket") {
		t.Errorf("a file in place of the link: %v", err)
	}
	if _, err := os.Lstat(at.Path); !os.IsNotExist(err) {
		t.Errorf("the socket is left without its link: %v", err)
	}
}

// TestStaleSockets checks that podrun removes the sockets of killed supervisors, even if their root
// directories no longer exist, and keeps active and new sockets.
func TestStaleSockets(t *testing.T) {
	run := filepath.Join(t.TempDir(), "serve")
	old := time.Now().Add(-2 * staleAfter)
	listen := func(name string, modified time.Time, kill bool) string {
		t.Helper()
		path := filepath.Join(run, name, "podrun.sock")
		l, err := ListenUnix(Socket{Path: path})
		if err == nil {
			err = os.Chtimes(path, modified, modified)
		}
		if err != nil {
			t.Fatal(err)
		}
		if kill {
			l.(*socket).UnixListener.Close()
		} else {
			t.Cleanup(func() { l.Close() })
		}
		return filepath.Dir(path)
	}
	stale, served, fresh := listen("stale", old, true), listen("served", old, false), listen("fresh", time.Now(), true)
	own, err := ListenUnix(Socket{Path: filepath.Join(run, "own", "podrun.sock"), Link: filepath.Join(t.TempDir(), "link")})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for dir, want := range map[string]bool{stale: false, served: true, fresh: true, filepath.Join(run, "own"): true} {
		if _, err := os.Lstat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %t", dir, err, want)
		}
	}
}

func BenchmarkScrape100(b *testing.B) {
	_, c, _ := serveSocket(b, testBackend(100))
	for b.Loop() {
		get(b, c, "/metrics")
	}
}

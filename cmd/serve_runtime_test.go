package cmd

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// listenNotify returns the messages to a service manager.
func listenNotify(t *testing.T) *lockedBuffer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "200000")
	sent := &lockedBuffer{}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := l.Read(b)
			if err != nil {
				return
			}
			sent.Write(append(b[:n:n], '\n'))
		}
	}()
	return sent
}

// readAPI sends a request to a supervisor's socket; the code is 0 if nothing listens.
func readAPI(socket, path string) (code int, body string) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	answer, err := client.Get("http://podrun" + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data)
}

// until waits for a condition, which is checked often.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	patience.Wait(t, patience.OnFake, what, holds)
}

// TestServeWithoutARuntime: while no runtime can be chosen, serve is ready for systemd, sends STATUS and
// WATCHDOG, and its API reports the current reason. When there is a runtime, serve supervises.
func TestServeWithoutARuntime(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	root, manifests, socket := filepath.Join(dir, "root"), filepath.Join(dir, "manifests"), filepath.Join(dir, "api.sock")
	layout := embedded.ReadLayout(root)
	if err := embedded.MakeDirs(layout); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(manifests, 0o750); err != nil {
		t.Fatal(err)
	}
	record := func(text string) {
		t.Helper()
		if err := os.WriteFile(layout.Choice(), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	// The record of a later podrun may name another runtime, and podrun does not find the runtime of a pod.
	record(`{"schemaVersion":98}`)
	const uid = "11111111-2222-3333-4444-555555555555"
	pod := filepath.Join(root, "pods", uid)
	if err := os.MkdirAll(pod, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pod, "pod.yaml"), []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: default, uid: "+uid+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sent, said := listenNotify(t), &lockedBuffer{}
	ctx, end := context.WithCancel(t.Context())
	code := make(chan int)
	serve := []string{"serve", manifests, "--config=", "--root-dir=" + root, "--api-socket=" + socket, "--eviction-hard=", "--pod-logs-dir=" + dir + "/logs", "--container-logs-dir=" + dir + "/links", "--allow-kubelet"}
	go func() { code <- Main(ctx, serve, cli.Streams{Out: io.Discard, Err: said}, "test", time.Now()) }()
	t.Cleanup(func() {
		if end(); t.Failed() {
			t.Logf("serve wrote\n%s\nand sent\n%s", said, sent)
		}
	})

	until(t, "systemd knows the reason", func() bool { return strings.Contains(sent.String(), "STATUS=waiting for a container runtime: ") })
	if !strings.Contains(sent.String(), "READY=1") || !strings.Contains(sent.String(), "schema version 98") {
		t.Errorf("sent\n%s", sent)
	}
	for path, want := range map[string]string{"/readyz?verbose": "schema version 98", "/pods": "podrun serve waits for a container runtime: "} {
		if code, body := readAPI(socket, path); code < 500 || !strings.Contains(body, want) {
			t.Errorf("%s answers %d\n%s", path, code, body)
		}
	}
	if code, body := readAPI(socket, "/healthz"); code != http.StatusOK { // healthy, because a restart of serve would not help
		t.Errorf("/healthz answers %d\n%s", code, body)
	}
	before := strings.Count(sent.String(), "WATCHDOG=1")
	record(`{"schemaVersion":99}`)
	until(t, "the API reports the new reason", func() bool {
		code, body := readAPI(socket, "/readyz?verbose")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "schema version 99")
	})
	until(t, "systemd knows the new reason", func() bool { return strings.Contains(sent.String(), "schema version 99") })
	until(t, "the watchdog is notified", func() bool { return strings.Count(sent.String(), "WATCHDOG=1") > before })

	stop, err := critest.ForTest(t).Serve(filepath.Join(dir, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := os.RemoveAll(pod); err != nil {
		t.Fatal(err)
	}
	record(`{"schemaVersion":1,"kind":"external","endpoint":"unix://` + dir + `/cri.sock"}`)
	until(t, "serve supervises", func() bool { return strings.Contains(said.String(), "supervising the pods of "+manifests) })
	until(t, "serve is ready", func() bool { code, _ := readAPI(socket, "/readyz"); return code == http.StatusOK })
	end()
	if got := <-code; got != exit.OK {
		t.Errorf("exit code %d", got)
	}
	for _, want := range []string{"schema version 98", "schema version 99"} {
		if n := strings.Count(said.String(), want); n != 1 {
			t.Errorf("%d warnings of %s", n, want)
		}
	}
	if _, body := readAPI(socket, "/readyz"); !strings.Contains(body, "no such file") {
		t.Errorf("the socket is left: %s", body)
	}
}

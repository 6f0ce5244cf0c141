package rig

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/test/patience"
)

// API runs Engine.Serve for a directory, with the API on a socket. It returns a function
// that sends requests to the socket.
func API(t testing.TB, r *Host, o serve.Options) func(path string) (int, string) {
	t.Helper()
	socket := r.Layout().APISocket()
	ctx, cancel := context.WithCancel(t.Context())
	o.AllowKubelet, o.API.Socket = true, nodeapi.Socket{Path: socket, Link: r.Layout().Serve().APILink()}
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		o.Ready = func() { close(ready) }
		done <- serve.Run(ctx, r.Engine(), o)
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return nodeapi.DialUnix(ctx, socket) }}
	// The supervisor ends with the test that started it.
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, path := range []string{filepath.Dir(socket), r.Layout().Serve().APILink()} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s was left behind", path)
			}
		}
		if r.KeepPods {
			return
		}
		e := r.Engine()
		known, err := lookup.Find(context.Background(), e, lookup.Selector{})
		if err == nil {
			_, err = run.DeletePods(context.Background(), e, known, run.DeleteOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	client := patience.Client(t, transport)
	return func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://podrun" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

// DirWith creates a directory with one manifest.
func DirWith(t testing.TB, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	patience.Wait(t, patience.OnRuntime, what, holds)
}

package embedded

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podrun/podrun/cri/critest"
)

// TestReadSocket queries sockets of every kind, including Docker's containerd, whose
// server has no CRI.
func TestReadSocket(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", at(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	docker := grpc.NewServer()
	go func() { _ = docker.Serve(listen("docker")) }()
	t.Cleanup(docker.Stop)
	// This server accepts connections and never responds.
	listen("silent")
	stale := listen("stale").(*net.UnixListener)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	rt := critest.New()
	stop, err := rt.Serve(at("cri"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); rt.Close() })
	for name, want := range map[string]SocketState{"cri": Answers, "docker": NoCRI, "stale": Stale, "silent": Silent, "none": Absent} {
		within := time.Minute
		if want == Silent {
			within = 200 * time.Millisecond
		}
		deadline := time.Now().Add(10 * time.Second)
		got := ReadSocket(context.Background(), "unix://"+at(name), within)
		// docker may not listen yet.
		for got != want && time.Now().Before(deadline) {
			got = ReadSocket(context.Background(), "unix://"+at(name), within)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := ReadSocket(context.Background(), "tcp://127.0.0.1:1", time.Second); got != Silent {
		t.Errorf("an endpoint that is not a socket: %q", got)
	}
}

package report

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/patience"
)

// inside returns a pod with a container. The fake runtime has real listeners.
func inside(t *testing.T) (*rig.Host, access.Target) {
	r := rig.New(t)
	r.MustApply(rig.PodText("web", "Always", "containers:", "- {name: app, image: registry.example/app:1, command: [sh, -c, 'trap \"exit 0\" TERM; sleep 1000 & wait']}"), run.OutcomeCreated)
	target, err := access.Find(t.Context(), r.Engine(), "default", "web", "")
	if err != nil {
		t.Fatal(err)
	}
	return r, target
}

// TestForwardOnIPv4 checks that podrun, like kubectl, does not forward IPv6 connections if the
// address is 0.0.0.0.
func TestForwardOnIPv4(t *testing.T) {
	t.Parallel()
	r, _ := inside(t)
	defer r.MustDelete()
	ctx, stop := context.WithCancel(t.Context())
	listening := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() {
		done <- access.Forward(ctx, r.Engine(), access.ForwardOptions{Namespace: "default", Name: "web", Ports: []access.ForwardPort{{Remote: "9"}}, Addresses: []string{"0.0.0.0"},
			Listening: func(local net.Addr, _ int) { listening <- local },
			Failed:    func(net.Addr, int, error) {}})
	}()
	port := strconv.Itoa((<-listening).(*net.TCPAddr).Port)
	if conn, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", port)); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	if l, err := net.Listen("tcp6", net.JoinHostPort("::", port)); err != nil {
		t.Errorf("the port is also used for IPv6: %v", err)
	} else {
		l.Close()
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestForwardFails covers a runtime that does not forward ports, on a host where podrun cannot
// enter the pod's network either. podrun must report this for the connection, and continue.
func TestForwardFails(t *testing.T) {
	t.Parallel()
	r, _ := inside(t)
	defer r.MustDelete()
	ctx, stop := context.WithCancel(t.Context())
	listening, failed := make(chan net.Addr, 1), make(chan error, 1)
	done := make(chan error, 1)
	go func() {
		done <- access.Forward(ctx, r.Engine(), access.ForwardOptions{Namespace: "default", Name: "web", Ports: []access.ForwardPort{{Remote: "9"}}, Addresses: []string{"127.0.0.1"},
			Listening: func(local net.Addr, _ int) { listening <- local },
			Failed:    func(_ net.Addr, _ int, err error) { failed <- err }})
	}()
	local := <-listening
	try := func(want string) {
		t.Helper()
		conn, err := net.Dial("tcp", local.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if data, err := io.ReadAll(conn); len(data) > 0 || err != nil {
			t.Errorf("read %q, %v", data, err)
		}
		if err := patience.Receive(t, "the failure is reported", failed); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	try("no process of pod default/web listens on port 9")
	clear := r.Runtime.Fault("PortForward", critest.Fault{Err: status.Error(codes.Unimplemented, "unknown method PortForward")})
	try("the runtime does not report the process ID of the sandbox")
	clear()
	try("no process of pod default/web listens on port 9")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCopyWithoutTar checks that the error states that the image has no tar, or that a local
// file is missing.
func TestCopyWithoutTar(t *testing.T) {
	t.Parallel()
	r, target := inside(t)
	defer r.MustDelete()
	e, dir := r.Engine(), t.TempDir()
	ignore := access.CopyOptions{Warn: func(string) {}}
	rig.WantErr(t, access.CopyTo(t.Context(), e, target, filepath.Join(dir, "none"), "/tmp", nil, ignore), problem.Failed, "none: no such file")
	missing := errors.New(`rpc error: OCI runtime exec failed: exec failed: unable to start container process: exec: "tar": executable file not found in $PATH: unknown`)
	r.Runtime.ScriptExec("app", func(cmd []string) *critest.Exec {
		if cmd[0] == "tar" {
			return &critest.Exec{Err: missing}
		}
		return nil
	})
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	rig.WantErr(t, access.CopyFrom(t.Context(), e, target, "/etc", filepath.Join(dir, "etc"), nil, ignore), problem.Failed, "its image has no tar")
	rig.WantErr(t, access.CopyTo(t.Context(), e, target, file, "/tmp", nil, ignore), problem.Failed, "its image has no tar")
	rig.WantErr(t, access.CopyFrom(t.Context(), e, target, "/etc", "", &bytes.Buffer{}, ignore), problem.Failed, "its image has no tar")
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Errorf("%v %v", entries, err)
	}
}

package discover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/problem"
)

// factError returns the error for an unreadable fact.
func factError(op string, err error, hint string) error {
	switch {
	case problem.Exhausted(err):
		// The command line adds its own hint.
		hint = ""
	case hint == "" && errors.Is(err, os.ErrPermission):
		hint = "run as root"
	}
	return &problem.Error{Kind: problem.Runtime, Object: "host", Op: op, Err: err, Hint: hint}
}

// Unreachable returns the error (of kind Runtime, with a hint) for a failed first call to a
// runtime. The call had the given limit. It uses gRPC's message only as a last resort: this
// message names neither the socket nor a fix.
func Unreachable(endpoint string, err error, limit time.Duration) error {
	cause, hint := explain(endpoint, err, limit)
	return &problem.Error{Kind: problem.Runtime, Object: "runtime " + endpoint, Op: "connect", Err: cause, Hint: hint}
}

const (
	hintCRI  = "is this a CRI socket? containerd's CRI plugin may be disabled (disabled_plugins in /etc/containerd/config.toml)"
	hintRoot = "run as root"
)

// hintRunning names the program that serves an endpoint, if the endpoint's path is well known.
func hintRunning(endpoint string) string {
	program, unit := "the container runtime", ""
	switch name := filepath.Base(endpoint); {
	case strings.HasPrefix(name, "crio"):
		program = "CRI-O"
	case strings.HasPrefix(name, "containerd"):
		program = "containerd"
	}
	switch strings.TrimPrefix(endpoint, "unix://") {
	case "/run/containerd/containerd.sock":
		unit = " ('systemctl start containerd')"
	case "/run/crio/crio.sock", "/var/run/crio/crio.sock":
		unit = " ('systemctl start crio')"
	}
	return "is " + program + " running? start it" + unit + ", or set another socket with --container-runtime-endpoint"
}

// explain determines why a call failed. It examines the socket's file, then opens a plain
// connection, and finally uses the gRPC status.
func explain(endpoint string, err error, limit time.Duration) (error, string) {
	if path, perr := cri.SocketPath(endpoint); perr == nil {
		if cause, hint := explainSocket(path); cause != nil {
			return cause, hint
		}
	}
	switch st := status.Convert(err); {
	case st.Code() == codes.Unimplemented:
		return fmt.Errorf("the server does not implement CRI: %s", st.Message()), hintCRI
	case st.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("no answer within %s", limit), "is the runtime overloaded, or is this another program's socket?"
	// The peer closed the connection before or after gRPC sent its preface.
	case strings.Contains(st.Message(), "server preface") || strings.Contains(st.Message(), "client preface") || strings.Contains(st.Message(), "frame"),
		strings.Contains(st.Message(), "broken pipe"), strings.Contains(st.Message(), "connection reset"):
		return fmt.Errorf("the server does not speak gRPC"), hintCRI
	case st.Code() == codes.PermissionDenied:
		return err, hintRoot
	}
	return err, hintRunning(endpoint)
}

// explainSocket returns why a socket does not accept connections, or nil if it does.
func explainSocket(path string) (error, string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist", path), hintRunning(path)
	case errors.Is(err, os.ErrPermission):
		return err, hintRoot
	case err != nil:
		return err, ""
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is not a socket", path), hintCRI
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return nil, ""
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("connect to %s: %w", path, os.ErrPermission), hintRoot
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no process listens on %s", path), hintRunning(path)
	}
	return err, hintRunning(path)
}

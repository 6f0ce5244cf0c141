package cri

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// ServerPID returns the ID of the process that listens on an endpoint's socket, or 0 if
// that process is in another PID namespace.
func ServerPID(ctx context.Context, endpoint string) (int, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return 0, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("endpoint %s: not a unix socket", endpoint)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if got != nil {
		return 0, fmt.Errorf("endpoint %s: SO_PEERCRED: %w", endpoint, got)
	}
	return int(cred.Pid), nil
}

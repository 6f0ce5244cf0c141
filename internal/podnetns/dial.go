package podnetns

import (
	"context"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/rootless"
)

// uplink is the name of the interface of N that leads to the host and to other networks (podrun-rootless).
const uplink = "uplink"

// DialContext connects to a TCP address. It connects to the addresses of pods and Services from the namespace, and to
// all others from the host's network, for which it uses the dialer. Of the dialer's settings, it uses Timeout for
// both. Like the kubelet's dialer for probes, its connections do not remain in TIME_WAIT.
func DialContext(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || rootless.Inside() == nil {
		return dialer.DialContext(ctx, network, address)
	}
	fd := -1
	err = Do(func() (err error) {
		if isLocal(to.Addr()) {
			fd, err = unix.Socket(family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		}
		return err
	})
	if err == nil && fd < 0 {
		return dialer.DialContext(ctx, network, address)
	}
	var conn net.Conn
	if err == nil {
		if dialer.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
			defer cancel()
		}
		conn, err = connect(ctx, fd, to)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return conn, nil
}

// isLocal reports whether an address is reachable in N without the uplink. It must be called in N.
func isLocal(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return false
	}
	routes, err := netlink.RouteGet(addr.AsSlice())
	if err != nil || len(routes) == 0 {
		return false
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	return err == nil && link.Attrs().Name != uplink
}

func family(addr netip.Addr) int {
	if addr.Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// connect connects a non-blocking socket, and closes it if that fails.
func connect(ctx context.Context, fd int, to netip.AddrPort) (net.Conn, error) {
	// The file registers the socket with Go's poller, so that no thread waits.
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close() // the connection has its own descriptor
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1}); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		return nil, os.NewSyscallError("connect", err)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = file.SetWriteDeadline(time.Unix(1, 0)) // ends the wait; it fails only for a closed file
	})
	defer stop()
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
			return false
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if failed = err; err == nil && code != 0 {
			failed = os.NewSyscallError("connect", unix.Errno(code))
		}
		return true
	})
	switch {
	case ctx.Err() != nil:
		return nil, timeoutOf(ctx)
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, failed
	}
	return net.FileConn(file)
}

// timeoutOf returns the error of a connection attempt after ctx has ended. As in package net, an expired deadline is
// an "i/o timeout".
func timeoutOf(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if addr := to.Addr().Unmap(); addr.Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: addr.As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

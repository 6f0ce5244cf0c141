package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"

	"github.com/vishvananda/netns"
)

// Dialed is a direct connection to a TCP port of a sandbox. podrun uses it if the runtime does
// not forward ports.
type Dialed struct{ *net.TCPConn }

// Close closes the connection. It ignores the error of closing, because that means no loss of data.
func (c Dialed) Close() { _ = c.TCPConn.Close() }

// Err returns nil, because Read and Write return the errors of the connection.
func (c Dialed) Err(context.Context) error { return nil }

// DialPort connects to a port on localhost in the network namespace of a process. Runtimes do
// the same to forward ports.
func DialPort(ctx context.Context, pid, port int) (Dialed, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := dialIn(ctx, fmt.Sprintf("/proc/%d/ns/net", pid), port)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		return Dialed{}, r.err
	}
	return Dialed{r.conn.(*net.TCPConn)}, nil
}

// dialIn enters a network namespace on a separate thread. The thread exits with its goroutine,
// because other goroutines must not run on a thread that has changed its namespace.
func dialIn(ctx context.Context, namespace string, port int) (net.Conn, error) {
	// The thread is never unlocked, so that it exits with its goroutine.
	runtime.LockOSThread()
	ns, err := netns.GetFromPath(namespace)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", namespace, err)
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		return nil, fmt.Errorf("enter %s: %w", namespace, err)
	}
	var errs []error
	// dialIn does not resolve the name localhost, because the resolver may run on another thread.
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

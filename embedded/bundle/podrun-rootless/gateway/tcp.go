package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	// dialLimit limits a connection attempt to the host. Linux gives up after about 130 s, but a
	// pod that scans a network must not use all handshakes for so long.
	dialLimit = 20 * time.Second
	// Keep-alive probes find peers that have disappeared: a pod whose namespace was removed sends
	// nothing. 8 probes, one each 15 s, after 60 s without data.
	keepAliveIdle, keepAliveInterval, keepAliveCount = 60 * time.Second, 15 * time.Second, 8
	// A connection of which one side is closed ends after this time without data.
	halfClosedLimit = 10 * time.Minute
	copyBuffer      = 64 << 10
)

// forwardTCP connects to the destination before it completes the handshake, so that a pod sees a
// refused connection as such.
func (g *Gateway) forwardTCP(r *tcp.ForwarderRequest) {
	id := r.ID()
	to := netip.AddrPortFrom(addr(id.LocalAddress), id.LocalPort)
	if to == netip.AddrPortFrom(Address4, domain) {
		g.proxy(r, g.dialResolver)
		return
	}
	if refused(to.Addr(), g.options.AllowMetadata) {
		r.Complete(true)
		return
	}
	g.proxy(r, func(ctx context.Context) (*net.TCPConn, error) { return dialTCP(ctx, to) })
}

// proxy completes a request with a connection of the host.
func (g *Gateway) proxy(r *tcp.ForwarderRequest, dial func(context.Context) (*net.TCPConn, error)) {
	select {
	case g.tcp <- struct{}{}:
		defer func() { <-g.tcp }()
	default:
		r.Complete(true)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	host, err := dial(ctx)
	cancel()
	if err != nil {
		// Without an answer, the pod sends its request again, as it would without a gateway.
		r.Complete(!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, unix.ETIMEDOUT))
		return
	}
	defer host.Close()
	var queue waiter.Queue
	endpoint, failure := r.CreateEndpoint(&queue)
	r.Complete(failure != nil)
	if failure != nil {
		return
	}
	keepAlive(endpoint)
	size := int64(bufferSize(len(g.tcp)))
	endpoint.SocketOptions().SetSendBufferSize(size, true)
	endpoint.SocketOptions().SetReceiveBufferSize(size, true)
	pod := gonet.NewTCPConn(&queue, endpoint)
	defer pod.Close()
	exchange(pod, host, func() { endpoint.Abort() }, func() { _ = host.SetLinger(0) })
}

func dialTCP(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func keepAlive(e tcpip.Endpoint) {
	idle, interval := tcpip.KeepaliveIdleOption(keepAliveIdle), tcpip.KeepaliveIntervalOption(keepAliveInterval)
	_ = e.SetSockOpt(&idle)
	_ = e.SetSockOpt(&interval)
	_ = e.SetSockOptInt(tcpip.KeepaliveCountOption, keepAliveCount)
	e.SocketOptions().SetKeepAlive(true)
}

// exchange copies in both directions until both have ended. The end of data in one direction is the
// end of data of the other connection (half-close); an error resets both.
func exchange(pod *gonet.TCPConn, host *net.TCPConn, resetPod, resetHost func()) {
	var wg sync.WaitGroup
	reset := sync.OnceFunc(func() {
		resetHost()
		resetPod()
		_ = host.Close()
	})
	end := func(err error, closeWrite func() error, other interface{ SetReadDeadline(time.Time) error }) {
		if err != nil || closeWrite() != nil {
			reset()
			return
		}
		_ = other.SetReadDeadline(time.Now().Add(halfClosedLimit))
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		end(copyData(pod, host), pod.CloseWrite, pod)
	}()
	end(copyData(host, pod), host.CloseWrite, host)
	wg.Wait()
}

var buffers = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

// copyData copies until the end of data. It uses a buffer only while there is data.
func copyData(to io.Writer, from io.Reader) error {
	source, ok := from.(*net.TCPConn)
	if !ok {
		return copyFromPod(to, from)
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var buffer *[]byte
		var n int
		var failure error
		err := raw.Read(func(fd uintptr) bool {
			buffer = buffers.Get().(*[]byte)
			for {
				n, failure = unix.Read(int(fd), *buffer)
				if failure != unix.EINTR {
					break
				}
			}
			if failure == unix.EAGAIN {
				buffers.Put(buffer)
				return false
			}
			return true
		})
		if err != nil {
			return err
		}
		if failure == nil && n > 0 {
			_, failure = to.Write((*buffer)[:n])
			n = max(n, 1)
		}
		buffers.Put(buffer)
		if failure != nil || n == 0 {
			return failure
		}
	}
}

// copyFromPod reads with a small buffer as long as there is little data.
func copyFromPod(to io.Writer, from io.Reader) error {
	small := make([]byte, 2<<10)
	for {
		n, err := from.Read(small)
		if n > 0 {
			if _, err := to.Write(small[:n]); err != nil {
				return err
			}
		}
		if err == nil && n == len(small) {
			err = copyMuch(to, from)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyMuch copies with a large buffer until a read returns little data.
func copyMuch(to io.Writer, from io.Reader) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := from.Read(*buffer)
		if n > 0 {
			if _, err := to.Write((*buffer)[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if n < 2<<10 {
			return nil
		}
	}
}

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

	"github.com/podrun/podrun/bundle/podrun-rootless/relay"
)

const (
	// dialLimit limits a connection attempt to the host. Linux gives up after about 130 s, but a
	// pod that scans a network must not use all handshakes for so long.
	dialLimit = 20 * time.Second
	// Keep-alive probes find peers that have disappeared: a pod whose namespace was removed sends
	// nothing. 8 probes, one each 15 s, after 60 s without data.
	keepAliveIdle, keepAliveInterval, keepAliveCount = 60 * time.Second, 15 * time.Second, 8
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
	wg.Add(1)
	go func() {
		defer wg.Done()
		if err := relay.UntilIdle(host, func() (int64, error) { return relay.Copy(pod, host) }); err != nil || pod.CloseWrite() != nil {
			reset()
			return
		}
		_ = pod.SetReadDeadline(time.Now().Add(relay.IdleLimit))
	}()
	if err := relay.UntilIdle(pod, func() (int64, error) { return copyFromPod(host, pod) }); err != nil || host.CloseWrite() != nil {
		reset()
	} else {
		_ = host.SetReadDeadline(time.Now().Add(relay.IdleLimit))
	}
	wg.Wait()
}

// copyFromPod reads with a small buffer as long as there is little data.
func copyFromPod(to io.Writer, from io.Reader) (copied int64, err error) {
	small := make([]byte, 2<<10)
	for err == nil {
		var n int
		if n, err = copyOnce(to, from, small); err == nil && n == len(small) {
			var much int64
			much, err = copyMuch(to, from)
			copied += much
		}
		copied += int64(n)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return copied, err
}

// copyMuch copies with a large buffer until a read returns little data.
func copyMuch(to io.Writer, from io.Reader) (copied int64, err error) {
	buffer := relay.Buffers.Get().(*[]byte)
	defer relay.Buffers.Put(buffer)
	for n := len(*buffer); err == nil && n >= 2<<10; copied += int64(n) {
		n, err = copyOnce(to, from, *buffer)
	}
	return copied, err
}

func copyOnce(to io.Writer, from io.Reader, buffer []byte) (int, error) {
	n, err := from.Read(buffer)
	if n > 0 {
		if _, failure := to.Write(buffer[:n]); failure != nil {
			return n, failure
		}
	}
	return n, err
}

package gateway

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/podrun/podrun/bundle/podrun-rootless/relay"
	"github.com/podrun/podrun/bundle/podrun-rootless/sessions"
)

// maxDatagram is the maximum size of a datagram.
const maxDatagram = 64 << 10

// forwardUDP starts a flow. An unhandled packet makes the network stack send ICMP's port
// unreachable.
func (g *Gateway) forwardUDP(r *udp.ForwarderRequest) bool {
	id := r.ID()
	to := netip.AddrPortFrom(addr(id.LocalAddress), id.LocalPort)
	if refused(to.Addr(), g.options.AllowMetadata) {
		return false
	}
	host, err := dialUDP(to)
	if err != nil {
		return false
	}
	f := &flow{host: host, done: make(chan struct{})}
	endpoint, failure := r.CreateEndpoint(&f.queue)
	if failure != nil {
		_ = host.Close()
		return true // a concurrent packet has started the flow
	}
	f.pod = endpoint
	f.session = g.flows.Add(f.close)
	go f.send()
	go f.receive()
	return true
}

// dialUDP returns a socket that receives only from the destination. It cannot send to a broadcast
// address of the host's networks: net permits this by default.
func dialUDP(to netip.AddrPort) (*net.UDPConn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failure error
		err := c.Control(func(fd uintptr) { failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 0) })
		if err != nil {
			return err
		}
		return failure
	}}
	c, err := d.Dial("udp", to.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// flow is a UDP flow between a pod and one destination.
type flow struct {
	pod   tcpip.Endpoint
	queue waiter.Queue // of pod
	host  *net.UDPConn

	session *sessions.Session
	done    chan struct{}
}

func (f *flow) close() {
	close(f.done)
	_ = f.host.Close()
	f.pod.Close()
}

// send copies from the pod to the host.
func (f *flow) send() {
	defer f.session.End()
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	f.queue.EventRegister(&entry)
	defer f.queue.EventUnregister(&entry)
	for {
		buffer := relay.Buffers.Get().(*[]byte)
		w := tcpip.SliceWriter(*buffer)
		got, failure := f.pod.Read(&w, tcpip.ReadOptions{})
		var err error
		if failure == nil {
			f.session.Active(false)
			_, err = f.host.Write((*buffer)[:got.Count])
		}
		relay.Buffers.Put(buffer)
		if _, empty := failure.(*tcpip.ErrWouldBlock); empty {
			select {
			case <-ready:
				continue
			case <-f.done:
				return
			}
		}
		if failure != nil || err != nil && !transient(err) {
			return
		}
	}
}

// receive copies from the host to the pod.
func (f *flow) receive() {
	defer f.session.End()
	relay.Datagrams(f.host, transient, func(datagram []byte) {
		f.session.Active(true)
		// The stack drops the datagram if the uplink's queue is full.
		_, _ = f.pod.Write(bytes.NewReader(datagram), tcpip.WriteOptions{})
	})
}

// transient reports whether a flow continues after an error: a datagram was too large, or a queue
// was full.
func transient(err error) bool {
	return slices.ContainsFunc([]error{unix.EMSGSIZE, unix.ENOBUFS, unix.EAGAIN, unix.EPERM, unix.ENETUNREACH, unix.EHOSTUNREACH},
		func(e error) bool { return errors.Is(err, e) })
}

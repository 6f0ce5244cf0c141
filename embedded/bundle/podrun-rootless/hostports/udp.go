package hostports

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/bundle/podrun-rootless/relay"
	"github.com/podrun/podrun/bundle/podrun-rootless/sessions"
)

// maxClients is the maximum number of UDP sessions of a port.
const maxClients = 1024

const maxDatagram = 64 << 10

// udpPort is an open UDP port.
type udpPort struct {
	forwarder *Forwarder
	conn      *net.UDPConn
	to        netip.AddrPort
	set       *sessions.Set

	mu      sync.Mutex
	clients map[client]*session
}

// client is the source of datagrams. A reply must come from the address to which the client has sent.
type client struct {
	from netip.AddrPort
	to   netip.Addr
}

type session struct {
	*sessions.Session
	pod *net.UDPConn
	oob []byte // the source address of replies
}

// listenUDP forwards datagrams until the result is closed.
func (f *Forwarder) listenUDP(network, at string, to netip.AddrPort) (io.Closer, error) {
	address, err := net.ResolveUDPAddr(network, at)
	if err != nil {
		return nil, err
	}
	c, err := net.ListenUDP(network, address)
	if err != nil {
		return nil, err
	}
	if err := requestAddresses(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	u := &udpPort{forwarder: f, conn: c, to: to, set: sessions.New(maxClients), clients: map[client]*session{}}
	go u.serve()
	return u, nil
}

// requestAddresses makes the kernel report the destination of each datagram.
func requestAddresses(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var four, six error
	if err := raw.Control(func(fd uintptr) {
		four = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		six = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}); err != nil {
		return err
	}
	if four != nil && six != nil {
		return four
	}
	return nil
}

// Close closes the port and its sessions.
func (u *udpPort) Close() error {
	err := u.conn.Close()
	u.set.End()
	return err
}

func (u *udpPort) serve() {
	buffer, oob := make([]byte, maxDatagram), make([]byte, 256)
	for {
		n, oobn, _, from, err := u.conn.ReadMsgUDPAddrPort(buffer, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(pause)
			continue
		}
		local, reply := parseDestination(oob[:oobn])
		s := u.session(client{from, local}, reply)
		if s == nil {
			continue
		}
		s.Active(false)
		_, _ = s.pod.Write(buffer[:n])
	}
}

// session returns the session of a client, or nil if there can be no other one.
func (u *udpPort) session(of client, reply []byte) *session {
	u.mu.Lock()
	s := u.clients[of]
	u.mu.Unlock()
	if s != nil {
		return s
	}
	c, err := u.forwarder.dial(u.to, unix.SOCK_DGRAM)
	if err != nil {
		return nil
	}
	s = &session{pod: c.(*net.UDPConn), oob: reply}
	u.mu.Lock()
	u.clients[of] = s
	u.mu.Unlock()
	s.Session = u.set.Add(func() {
		u.mu.Lock()
		if u.clients[of] == s {
			delete(u.clients, of)
		}
		u.mu.Unlock()
		_ = s.pod.Close()
	})
	go u.receive(s, of)
	return s
}

// receive sends replies to the client.
func (u *udpPort) receive(s *session, to client) {
	defer s.End()
	never := func(error) bool { return false } // a failure means that the pod refuses the datagrams
	relay.Datagrams(s.pod, never, func(datagram []byte) {
		s.Active(true)
		// A lost datagram is not an error.
		_, _, _ = u.conn.WriteMsgUDPAddrPort(datagram, s.oob, to.from)
	})
}

// parseDestination returns the destination of a datagram, and the control message that makes it the
// source of a reply.
func parseDestination(oob []byte) (netip.Addr, []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, nil
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			var info unix.Inet4Pktinfo
			copy(info.Spec_dst[:], m.Data[4:8])
			return netip.AddrFrom4(info.Spec_dst), unix.PktInfo4(&info)
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			var info unix.Inet6Pktinfo
			copy(info.Addr[:], m.Data[:16])
			a := netip.AddrFrom16(info.Addr)
			if a.IsLinkLocalUnicast() {
				info.Ifindex = binary.NativeEndian.Uint32(m.Data[16:20])
			}
			return a, unix.PktInfo6(&info)
		}
	}
	return netip.Addr{}, nil
}

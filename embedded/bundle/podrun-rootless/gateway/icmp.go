package gateway

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// pingIdle is the time after which the ping socket of a flow is closed.
const pingIdle = 10 * time.Second

// echo is an ICMP echo request of a pod.
type echo struct {
	to    netip.Addr
	ident uint16
	// message is the ICMP message.
	message []byte
}

// parseEcho parses a packet of the link. It reports false for packets that are not echo requests,
// that are malformed, or that are addressed to the gateway: the network stack handles these.
func parseEcho(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) (echo, bool) {
	const minimum = header.ICMPv4MinimumSize // 8, also of ICMPv6
	data := pkt.Data()
	switch protocol {
	case header.IPv4ProtocolNumber:
		h, ok := data.PullUp(header.IPv4MinimumSize)
		if !ok || header.IPv4(h).TransportProtocol() != header.ICMPv4ProtocolNumber {
			return echo{}, false
		}
		ip := header.IPv4(data.AsRange().ToSlice())
		if !ip.IsValid(len(ip)) || ip.More() || ip.FragmentOffset() != 0 || ip.PayloadLength() < minimum {
			return echo{}, false
		}
		m := header.ICMPv4(ip.Payload())
		return newEcho(addr(ip.DestinationAddress()), m, m.Type() == header.ICMPv4Echo && m.Code() == 0)
	case header.IPv6ProtocolNumber:
		h, ok := data.PullUp(header.IPv6MinimumSize)
		if !ok || header.IPv6(h).TransportProtocol() != header.ICMPv6ProtocolNumber {
			return echo{}, false
		}
		ip := header.IPv6(data.AsRange().ToSlice())
		if !ip.IsValid(len(ip)) || ip.PayloadLength() < minimum {
			return echo{}, false
		}
		m := header.ICMPv6(ip.Payload())
		return newEcho(addr(ip.DestinationAddress()), m, m.Type() == header.ICMPv6EchoRequest && m.Code() == 0)
	}
	return echo{}, false
}

func newEcho(to netip.Addr, message []byte, request bool) (echo, bool) {
	if !request || to == Address4 || to == Address6 {
		return echo{}, false
	}
	return echo{to: to, ident: binary.BigEndian.Uint16(message[4:]), message: message}, true
}

// pings forwards echo requests by ping sockets, if the host permits them to the user
// (net.ipv4.ping_group_range). Otherwise a pod receives no replies.
type pings struct {
	gateway *Gateway
	limit   int

	mu   sync.Mutex
	open map[pingKey]*os.File
}

type pingKey struct {
	to    netip.Addr
	ident uint16
}

func newPings(g *Gateway, limit int) *pings {
	return &pings{gateway: g, limit: limit, open: map[pingKey]*os.File{}}
}

// forward sends a request. Its errors have no effect, as a lost packet.
func (p *pings) forward(e echo) {
	if refused(e.to, p.gateway.options.AllowMetadata) {
		return
	}
	key := pingKey{e.to, e.ident}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.open[key]
	if f == nil {
		if len(p.open) >= p.limit {
			return
		}
		var err error
		if f, err = dialPing(e.to); err != nil {
			return
		}
		p.open[key] = f
		go p.receive(key, f)
	}
	_ = f.SetReadDeadline(time.Now().Add(pingIdle))
	// Write would wait while the socket's queue is full, and this function is called by the receiver of all
	// packets. The kernel replaces the identifier and the checksum.
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), e.message) })
	}
}

// dialPing returns a ping socket that is connected to an address.
func dialPing(to netip.Addr) (*os.File, error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	var sa unix.Sockaddr = &unix.SockaddrInet4{}
	if to.Is4() {
		sa = &unix.SockaddrInet4{Addr: to.As4()}
	} else {
		family, protocol, sa = unix.AF_INET6, unix.IPPROTO_ICMPV6, &unix.SockaddrInet6{Addr: to.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "ping"), nil
}

// receive sends replies to the pod until the flow is idle.
func (p *pings) receive(key pingKey, f *os.File) {
	defer func() {
		p.mu.Lock()
		delete(p.open, key)
		p.mu.Unlock()
		_ = f.Close()
	}()
	buffer := make([]byte, MTU)
	for {
		n, err := f.Read(buffer)
		if err != nil {
			return
		}
		if n >= header.ICMPv4MinimumSize {
			binary.BigEndian.PutUint16(buffer[4:], key.ident)
			p.gateway.sendICMP(key.to, buffer[:n])
		}
	}
}

// sendICMP sends a frame with an ICMP message of an address to N. It does not use the network stack,
// whose link filter drops echo replies.
func (g *Gateway) sendICMP(from netip.Addr, message []byte) {
	const vnet = 10 // an empty virtio-net header
	frame := make([]byte, vnet+header.EthernetMinimumSize, vnet+header.EthernetMinimumSize+header.IPv6MinimumSize+len(message))
	kind := header.IPv4ProtocolNumber
	if from.Is6() {
		kind = header.IPv6ProtocolNumber
	}
	header.Ethernet(frame[vnet:]).Encode(&header.EthernetFields{
		SrcAddr: tcpip.LinkAddress(g.options.MAC), DstAddr: tcpip.LinkAddress(g.options.NodeMAC), Type: kind,
	})
	source := tcpip.AddrFromSlice(from.AsSlice())
	if from.Is4() {
		ip := header.IPv4(make([]byte, header.IPv4MinimumSize))
		ip.Encode(&header.IPv4Fields{
			TotalLength: uint16(len(ip) + len(message)), TTL: 64, Protocol: uint8(header.ICMPv4ProtocolNumber),
			SrcAddr: source, DstAddr: tcpip.AddrFromSlice(Node4.Addr().AsSlice()),
		})
		ip.SetChecksum(^ip.CalculateChecksum())
		frame = append(frame, ip...)
		m := header.ICMPv4(message)
		m.SetChecksum(0)
		m.SetChecksum(^checksum.Checksum(m, 0))
	} else {
		ip := header.IPv6(make([]byte, header.IPv6MinimumSize))
		to := tcpip.AddrFromSlice(Node6.Addr().AsSlice())
		ip.Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(message)), HopLimit: 64, TransportProtocol: header.ICMPv6ProtocolNumber, SrcAddr: source, DstAddr: to,
		})
		frame = append(frame, ip...)
		m := header.ICMPv6(message)
		m.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: m, Src: source, Dst: to}))
	}
	_, _ = unix.Write(g.options.Socket, append(frame, message...))
}

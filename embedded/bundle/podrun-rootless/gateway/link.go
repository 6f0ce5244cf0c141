package gateway

import (
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Prepare sets the options of an AF_PACKET socket that is not bound yet: frames with a header that
// describes offloads, and a filter.
func Prepare(socket int) error {
	if err := unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("enable virtio-net headers: %w", err)
	}
	// The kernel may limit it to less.
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20)
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<20)
	raw, err := bpf.Assemble(filter())
	if err != nil {
		return err
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	if err := unix.SetsockoptSockFprog(socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	return nil
}

// filter returns a program that accepts the IP packets of N that come from the uplink's address. N
// masquerades those of pods, so another source is forged. It drops the gateway's own frames, which
// the kernel would otherwise return (PACKET_IGNORE_OUTGOING has no effect on a fanout group, which
// gVisor creates).
func filter() []bpf.Instruction {
	const source4, source6 = 14 + 12, 14 + 8
	four, six := Node4.Addr().As4(), Node6.Addr().As16()
	word := func(b []byte) uint32 {
		return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	}
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 14},
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IP, SkipFalse: 2},
		bpf.LoadAbsolute{Off: source4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(four[:]), SkipTrue: 9, SkipFalse: 10},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IPV6, SkipFalse: 9},
		bpf.LoadAbsolute{Off: source6, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(six[:4]), SkipFalse: 7},
		bpf.LoadAbsolute{Off: source6 + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(six[4:8]), SkipFalse: 5},
		bpf.LoadAbsolute{Off: source6 + 8, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(six[8:12]), SkipFalse: 3},
		bpf.LoadAbsolute{Off: source6 + 12, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(six[12:]), SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	}
}

// link handles ICMP echo requests before the network stack, which would answer them itself, in the
// name of any address.
type link struct {
	nested.Endpoint
	pings *pings
	reuse reuse
}

func newLink(child stack.LinkEndpoint, p *pings) *link {
	l := &link{pings: p}
	l.Init(child, l)
	return l
}

// DeliverNetworkPacket implements stack.NetworkDispatcher.
func (l *link) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	if request, ok := parseEcho(protocol, pkt); ok {
		l.pings.forward(request)
		return
	}
	if fragmentedICMPv6(protocol, pkt) {
		return
	}
	if l.reuse.delay(protocol, pkt, l) {
		return
	}
	l.Endpoint.DeliverNetworkPacket(protocol, pkt)
}

// fragmentedICMPv6 reports whether a packet is a fragment of an ICMPv6 message to another address than the
// gateway's. The network stack would answer an echo request; for IPv4, it does not.
func fragmentedICMPv6(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) bool {
	if protocol != header.IPv6ProtocolNumber {
		return false
	}
	h, ok := pkt.Data().PullUp(header.IPv6MinimumSize + header.IPv6FragmentHeaderSize)
	return ok && header.IPv6(h).NextHeader() == header.IPv6FragmentHeader && h[header.IPv6MinimumSize] == uint8(header.ICMPv6ProtocolNumber) &&
		addr(header.IPv6(h).DestinationAddress()) != Address6
}

// WritePackets implements stack.LinkEndpoint. It drops the network stack's own answers to echo
// requests that parseEcho has not seen, because of extension headers.
func (l *link) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	for _, pkt := range pkts.AsSlice() {
		if invented(pkt) {
			return pkts.Len(), nil
		}
	}
	return l.Endpoint.WritePackets(pkts)
}

// invented reports whether a packet is an echo reply of an address that is not the gateway's.
func invented(pkt *stack.PacketBuffer) bool {
	switch pkt.TransportProtocolNumber {
	case header.ICMPv4ProtocolNumber:
		h := header.ICMPv4(pkt.TransportHeader().Slice())
		return len(h) > 0 && h.Type() == header.ICMPv4EchoReply && addr(header.IPv4(pkt.NetworkHeader().Slice()).SourceAddress()) != Address4
	case header.ICMPv6ProtocolNumber:
		h := header.ICMPv6(pkt.TransportHeader().Slice())
		return len(h) > 0 && h.Type() == header.ICMPv6EchoReply && addr(header.IPv6(pkt.NetworkHeader().Slice()).SourceAddress()) != Address6
	}
	return false
}

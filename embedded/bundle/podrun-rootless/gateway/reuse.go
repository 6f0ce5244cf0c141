package gateway

import (
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// timeWait is how long a connection stays in TIME-WAIT.
const timeWait = time.Millisecond

// reuse delays connection requests whose ports belong to a connection in TIME-WAIT, until that connection has ended. A
// pod may use a port again as soon as its own end is closed, but gVisor accepts such a request only for a listener: it
// drops the request, and the kernel repeats it after a second, or it refuses the connection.
type reuse struct {
	stack   *stack.Stack
	most    int32 // maximum number of delayed requests
	delayed atomic.Int32
}

// delay reports whether it delays a packet, or drops it because there are too many delayed requests. It delivers the
// packet later. It runs for every packet, and allocates nothing for those that it does not delay.
func (r *reuse) delay(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer, to stack.NetworkDispatcher) bool {
	id, ok := parseRequest(protocol, pkt)
	if !ok || !r.waits(protocol, id) {
		return false
	}
	if r.delayed.Add(1) > r.most {
		r.delayed.Add(-1)
		return true
	}
	pkt.IncRef()
	time.AfterFunc(timeWait, func() {
		r.delayed.Add(-1)
		to.DeliverNetworkPacket(protocol, pkt)
		pkt.DecRef()
	})
	return true
}

// waits reports whether there is a connection in TIME-WAIT.
func (r *reuse) waits(protocol tcpip.NetworkProtocolNumber, id stack.TransportEndpointID) bool {
	endpoint, ok := r.stack.FindTransportEndpoint(protocol, tcp.ProtocolNumber, id, nicID).(*tcp.Endpoint)
	return ok && endpoint.EndpointState() == tcp.StateTimeWait
}

// parseRequest returns the addresses and ports of a packet that requests a TCP connection.
func parseRequest(protocol tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) (id stack.TransportEndpointID, ok bool) {
	data, size := pkt.Data(), 0
	switch protocol {
	case header.IPv4ProtocolNumber:
		h, complete := data.PullUp(header.IPv4MinimumSize)
		ip := header.IPv4(h)
		if !complete || ip.TransportProtocol() != header.TCPProtocolNumber || ip.FragmentOffset() != 0 {
			return id, false
		}
		size, id.LocalAddress, id.RemoteAddress = int(ip.HeaderLength()), ip.DestinationAddress(), ip.SourceAddress()
	case header.IPv6ProtocolNumber:
		h, complete := data.PullUp(header.IPv6MinimumSize)
		ip := header.IPv6(h)
		if !complete || ip.TransportProtocol() != header.TCPProtocolNumber {
			return id, false
		}
		size, id.LocalAddress, id.RemoteAddress = header.IPv6MinimumSize, ip.DestinationAddress(), ip.SourceAddress()
	default:
		return id, false
	}
	h, complete := data.PullUp(size + header.TCPMinimumSize)
	if !complete {
		return id, false
	}
	segment := header.TCP(h[size:])
	id.LocalPort, id.RemotePort = segment.DestinationPort(), segment.SourcePort()
	return id, segment.Flags()&(header.TCPFlagSyn|header.TCPFlagAck) == header.TCPFlagSyn
}

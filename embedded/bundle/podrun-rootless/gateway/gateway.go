// Package gateway is the gateway of the node's network namespace: it terminates the TCP connections
// and UDP flows of pods with gVisor's network stack, and makes them again from the host's network
// namespace, as the user. It requires no capabilities, no TUN device and no rules on the host.
package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp" // static neighbors
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/podrun/podrun/bundle/podrun-rootless/sessions"
)

// The addresses of both ends of the uplink. 192.0.0.0/29 (RFC 7335) is not used on the Internet, and
// fd00:706f:6472::/64 is a unique local prefix.
var (
	Address4 = netip.MustParseAddr("192.0.0.1")
	Address6 = netip.MustParseAddr("fd00:706f:6472::1")
	Node4    = netip.MustParsePrefix("192.0.0.2/29")
	Node6    = netip.MustParsePrefix("fd00:706f:6472::2/64")
)

// MTU is that of the uplink. Segmentation offload makes it irrelevant for the throughput of TCP.
const MTU = 1500

// Options are the settings of a gateway.
type Options struct {
	// Socket is an AF_PACKET socket (Prepare) whose interface is connected to the uplink.
	Socket int
	// MAC and NodeMAC are the hardware addresses of this interface and of the uplink.
	MAC, NodeMAC net.HardwareAddr
	// Files is the number of files that the process may open.
	Files int
	// AllowMetadata permits connections to the metadata services of clouds.
	AllowMetadata bool
	// Failed is called if the gateway ends because of an error.
	Failed func(error)
	// Resolvers returns the addresses of the host's resolvers.
	Resolvers func() []netip.Addr
}

// limits are the limits of a gateway, for all pods together.
type limits struct {
	handshakes int // TCP connections that are not established yet
	tcp, udp   int
	pings      int
	queries    int // of the resolver
}

// limitsFor returns the limits of a process that may have a number of open files: at least 4,096 in most
// distributions, and 524,288 with systemd. Each handshake, connection and flow has one.
func limitsFor(files int) limits {
	return limits{handshakes: min(1024, files/16), tcp: min(4096, files/4), udp: min(4096, files/8), pings: min(256, files/32), queries: min(512, files/16)}
}

// The buffers of a connection are in this process, not in the memory of the pod. Each new connection gets
// a part of memory, so that pods with thousands of stalled connections cannot use gigabytes.
const memory, minBuffer, maxBuffer = 32 << 20, 32 << 10, 4 << 20

// bufferSize returns the size of each of the two buffers of a connection.
func bufferSize(connections int) int {
	return max(minBuffer, min(maxBuffer, memory/max(connections, 1)))
}

// Gateway is a running gateway.
type Gateway struct {
	options Options
	limits  limits
	stack   *stack.Stack
	link    *link
	tcp     chan struct{} // a slot for each connection
	flows   *sessions.Set
	pings   *pings
	queries chan struct{}

	closeOnce sync.Once
	closed    chan struct{}
}

const nicID = 1

// Start starts a gateway.
func Start(o Options) (*Gateway, error) {
	l := limitsFor(o.Files)
	g := &Gateway{options: o, limits: l, closed: make(chan struct{}), tcp: make(chan struct{}, l.tcp), queries: make(chan struct{}, l.queries)}
	g.flows, g.pings = sessions.New(l.udp), newPings(g, l.pings)
	child, err := fdbased.New(&fdbased.Options{
		FDs: []int{o.Socket}, MTU: MTU, EthernetHeader: true, Address: tcpip.LinkAddress(o.MAC),
		PacketDispatchMode: fdbased.RecvMMsg, GSOMaxSize: maxSegment,
		// The packets do not leave this host's memory. The kernel computes the checksums of segments;
		// with TXChecksumOffload, gVisor would send other packets, such as resets, without one.
		RXChecksumOffload: true,
		ClosedFunc: func(err tcpip.Error) {
			select {
			case <-g.closed:
			default:
				o.Failed(fmt.Errorf("receive from the uplink: %v", err))
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	g.link = newLink(child, g.pings)
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	g.link.reuse.stack = g.stack
	g.link.reuse.most = int32(l.handshakes)
	if err := g.configure(); err != nil {
		return nil, err
	}
	if err := g.serveNames(); err != nil {
		return nil, err
	}
	return g, nil
}

// maxSegment is the maximum size of a segment before segmentation, with its headers, less than the
// 65,536 bytes of the kernel.
const maxSegment = 65_000

func (g *Gateway) configure() error {
	s := g.stack
	var failed error
	must := func(what string, err tcpip.Error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("start the gateway: %s: %s", what, err)
		}
	}
	// reno, the default: the window of cubic can overflow (google/gvisor issue 11632). Without RACK: its timers are
	// too short for the delays of this process, so it sends segments again that were not lost.
	recovery := tcpip.TCPRecovery(0)
	sack, moderate, cc := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true), tcpip.CongestionControlOption("reno")
	send := tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: 1 << 20, Max: maxBuffer}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: 1 << 20, Max: maxBuffer}
	wait := tcpip.TCPTimeWaitTimeoutOption(timeWait)
	for name, option := range map[string]tcpip.SettableTransportProtocolOption{
		"SACK": &sack, "receive buffer": &moderate, "congestion control": &cc, "send buffers": &send, "receive buffers": &receive, "TIME-WAIT": &wait, "recovery": &recovery,
	} {
		must(name, s.SetTransportProtocolOption(tcp.ProtocolNumber, option))
	}
	forwarder := tcp.NewForwarder(s, 0, g.limits.handshakes, g.forwardTCP)
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, g.forwardUDP).HandlePacket)

	must("interface", s.CreateNICWithOptions(nicID, g.link, stack.NICOptions{Name: "gateway"}))
	must("promiscuous mode", s.SetPromiscuousMode(nicID, true)) // accepts all destinations
	must("spoofing", s.SetSpoofing(nicID, true))                // answers for them
	for _, end := range []struct {
		protocol  tcpip.NetworkProtocolNumber
		own, node netip.Addr
		bits      int
	}{{ipv4.ProtocolNumber, Address4, Node4.Addr(), Node4.Bits()}, {ipv6.ProtocolNumber, Address6, Node6.Addr(), Node6.Bits()}} {
		address := tcpip.ProtocolAddress{Protocol: end.protocol, AddressWithPrefix: tcpip.AddressWithPrefix{
			Address: tcpip.AddrFromSlice(end.own.AsSlice()), PrefixLen: end.bits,
		}}
		must("address", s.AddProtocolAddress(nicID, address, stack.AddressProperties{}))
		// N has a static entry for the gateway, too: the link filter drops ARP and neighbor discovery.
		must("neighbor", s.AddStaticNeighbor(nicID, end.protocol, tcpip.AddrFromSlice(end.node.AsSlice()), tcpip.LinkAddress(g.options.NodeMAC)))
	}
	node := func(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }
	s.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, Gateway: node(Node4.Addr()), NIC: nicID},
		{Destination: header.IPv6EmptySubnet, Gateway: node(Node6.Addr()), NIC: nicID},
	})
	return failed
}

// Close stops the gateway. It does not close the socket.
func (g *Gateway) Close() {
	g.closeOnce.Do(func() {
		close(g.closed)
		g.stack.Close()
		g.link.Attach(nil)
	})
}

// addr returns an address of the network stack.
func addr(a tcpip.Address) netip.Addr {
	out, _ := netip.AddrFromSlice(a.AsSlice())
	return out
}

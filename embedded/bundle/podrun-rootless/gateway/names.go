package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"github.com/podrun/podrun/bundle/podrun-rootless/relay"
)

const (
	domain = 53 // the port
	// Resolvers of pods wait 5 s and then ask again. The next resolver is asked earlier.
	nextResolver, queryLimit = 1500 * time.Millisecond, 8 * time.Second
	maxResolvers             = 3 // as in resolv.conf(5)
	minMessage               = 12
)

// serveNames forwards DNS queries to the gateway's address to the host's resolvers, which may listen on
// a loopback address of the host. forwardTCP forwards queries by TCP.
func (g *Gateway) serveNames() error {
	at := tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(Address4.AsSlice()), Port: domain}
	c, err := gonet.DialUDP(g.stack, &at, nil, ipv4.ProtocolNumber)
	if err != nil {
		return fmt.Errorf("start the resolver: %w", err)
	}
	go func() {
		buffer := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			if n < minMessage {
				continue
			}
			select {
			case g.queries <- struct{}{}:
			default:
				continue // the pod asks again
			}
			query := append([]byte(nil), buffer[:n]...)
			go func() {
				defer func() { <-g.queries }()
				if reply := ask(query, g.resolvers()); reply != nil {
					_, _ = c.WriteTo(reply, from)
				}
			}()
		}
	}()
	return nil
}

// resolvers returns the host's resolvers with their ports.
func (g *Gateway) resolvers() []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range g.options.Resolvers() {
		if len(out) < maxResolvers && a != Address4 {
			out = append(out, netip.AddrPortFrom(a, domain))
		}
	}
	return out
}

// ask sends a query to one resolver after the other, and returns the first reply, or nil. Each query
// has a socket of its own, with a random port, that receives only from the resolver.
func ask(query []byte, resolvers []netip.AddrPort) []byte {
	replies := make(chan []byte, len(resolvers))
	limit := time.Now().Add(queryLimit)
	open := 0
	for i, to := range resolvers {
		open++
		go func() { replies <- askOne(query, to, limit) }()
		next := time.Until(limit)
		if i < len(resolvers)-1 {
			next = nextResolver
		}
		timer := time.NewTimer(next)
		for waiting := true; waiting && open > 0; {
			select {
			case r := <-replies:
				open--
				if r != nil {
					timer.Stop()
					return r
				}
			case <-timer.C:
				waiting = false
			}
		}
		timer.Stop()
	}
	return nil
}

func askOne(query []byte, to netip.AddrPort, limit time.Time) []byte {
	c, err := dialUDP(to)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(limit)
	if _, err := c.Write(query); err != nil {
		return nil
	}
	buffer := relay.Buffers.Get().(*[]byte)
	defer relay.Buffers.Put(buffer)
	for {
		n, err := c.Read(*buffer)
		if err != nil {
			return nil
		}
		if answers((*buffer)[:n], query) {
			return append([]byte(nil), (*buffer)[:n]...)
		}
	}
}

// answers reports whether a message is a response with the ID of the query.
func answers(reply, query []byte) bool {
	const response = 0x80
	return len(reply) >= minMessage && reply[0] == query[0] && reply[1] == query[1] && reply[2]&response != 0
}

// dialResolver connects to the first resolver that accepts the connection.
func (g *Gateway) dialResolver(ctx context.Context) (*net.TCPConn, error) {
	failure := errors.New("no resolvers")
	for _, to := range g.resolvers() {
		one, cancel := context.WithTimeout(ctx, 2*nextResolver)
		c, err := dialTCP(one, to)
		cancel()
		if err == nil {
			return c, nil
		}
		failure = err
	}
	return nil, failure
}

// ParseResolvers returns the addresses of the nameservers in a resolv.conf(5); the default is
// 127.0.0.1.
func ParseResolvers(text string) []netip.Addr {
	var out []netip.Addr
	for text := range strings.Lines(text) {
		line := strings.Fields(text)
		if len(line) < 2 || line[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(line[1]); err == nil {
			out = append(out, a.Unmap())
		}
	}
	if len(out) == 0 {
		out = append(out, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return out
}

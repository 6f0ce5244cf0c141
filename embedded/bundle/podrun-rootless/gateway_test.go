package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serveTCP accepts connections on the host, and answers each with a text and what the client has sent.
func serveTCP(t *testing.T, network, at, text string) {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				data, _ := io.ReadAll(c)
				_, _ = fmt.Fprintf(c, "%s%d", text, len(data))
			}()
		}
	}()
}

// serveUDP answers each datagram with a text and its size.
func serveUDP(t *testing.T, network, at, text string) {
	t.Helper()
	c, err := net.ListenPacket(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(fmt.Appendf(nil, "%s%d", text, n), from)
		}
	}()
}

// exchange sends a number of bytes, and returns the reply or the error.
func exchange(network, to string, n int) string {
	c, err := dialer.Dial(network, to)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(make([]byte, n)); err != nil {
		return err.Error()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
		data, err := io.ReadAll(t)
		if err != nil {
			return err.Error()
		}
		return string(data)
	}
	buffer := make([]byte, 64<<10)
	n, err = c.Read(buffer)
	if err != nil {
		return err.Error()
	}
	return string(buffer[:n])
}

// TestGateway connects from N to the host, and to addresses that the gateway refuses.
func TestGateway(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	serveTCP(t, "tcp4", "0.0.0.0:7000", "tcp4 ")
	serveTCP(t, "tcp6", "[::]:7000", "tcp6 ")
	serveUDP(t, "udp4", hostIP4+":7001", "udp4 ")
	serveUDP(t, "udp6", "["+hostIP6+"]:7001", "udp6 ")
	serveUDP(t, "udp4", "0.0.0.0:7002", "udp ")
	const refusedText = "refused"
	for _, c := range []struct {
		network, to string
		bytes       int
		want        string
	}{
		{"tcp", hostIP4 + ":7000", 3_000_000, "tcp4 3000000"},
		{"tcp", "[" + hostIP6 + "]:7000", 3_000_000, "tcp6 3000000"},
		{"tcp", hostIP4 + ":7000", 0, "tcp4 0"},
		{"udp", hostIP4 + ":7001", 10, "udp4 10"},
		{"udp", hostIP4 + ":7001", 40_000, "udp4 40000"},
		{"udp", "[" + hostIP6 + "]:7001", 40_000, "udp6 40000"},
		{"udp", hostIP4 + ":7001", 0, "udp4 0"},
		{"tcp", hostIP4 + ":7999", 0, refusedText},
		{"tcp", "[" + hostIP6 + "]:7999", 0, refusedText},
		// The host's loopback addresses, by each form that the kernel of the host would accept.
		{"tcp", "192.0.0.1:7000", 0, refusedText},
		{"tcp", "[fd00:706f:6472::1]:7000", 0, refusedText},
		{"udp", "192.0.0.1:7002", 1, refusedText},
		{"tcp", "169.254.169.254:80", 0, refusedText},
		{"tcp", "[fd00:ec2::254]:80", 0, refusedText},
		{"tcp", "[::127.0.0.1]:7000", 0, refusedText},
		{"udp", "[::127.0.0.1]:7002", 1, refusedText},
		// The host has no route to it: ICMP's answer to UDP is immediate.
		{"udp", "203.0.113.1:1", 1, refusedText},
	} {
		i.inNode(r, func() {
			if got := exchange(c.network, c.to, c.bytes); got != c.want && (c.want != refusedText || !strings.Contains(got, refusedText)) {
				t.Errorf("%s %s, %d bytes: %q, want %q", c.network, c.to, c.bytes, got, c.want)
			}
		})
	}
}

// TestGatewayLoopback sends packets to 127.0.0.1 through the uplink, as a pod could with a route of its own
// in N if the kernel let it (route_localnet).
func TestGatewayLoopback(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	accepted := make(chan struct{}, 10)
	l, err := net.Listen("tcp", "127.0.0.1:7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
			accepted <- struct{}{}
		}
	}()
	i.inNode(r, func() {
		for _, to := range []string{"127.0.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255"} {
			if got := rawSYN(t, netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr(to), 7000); got == "accepted" {
				t.Errorf("%s: %s", to, got)
			}
		}
		// The same packet, to an address of the host, gets an answer: the test can see one.
		if got := rawSYN(t, netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr(hostIP4), 7999); got != "reset" {
			t.Errorf("closed port: %s", got)
		}
	})
	select {
	case <-accepted:
		t.Error("the listener on 127.0.0.1 has a connection")
	default:
	}
}

// rawSYN sends a TCP SYN by the uplink, and returns what the answer is.
func rawSYN(t *testing.T, from, to netip.Addr, port uint16) string {
	uplinkSocket := openUplink(t)
	defer unix.Close(uplinkSocket)
	sendFrame(t, uplinkSocket, synPacket(from, to, 40_000, port))
	buffer := make([]byte, 2000)
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) {
		n, _, err := unix.Recvfrom(uplinkSocket, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err.Error()
		}
		p := buffer[:n]
		if n < 54 || binary.BigEndian.Uint16(p[12:]) != unix.ETH_P_IP || p[23] != unix.IPPROTO_TCP || binary.BigEndian.Uint16(p[36:]) != 40_000 {
			continue
		}
		switch flags := p[47]; {
		case flags&0x04 != 0:
			return "reset"
		case flags&0x12 == 0x12:
			return "accepted"
		}
	}
	return "no answer"
}

// openUplink returns a packet socket on the uplink. It runs in N.
func openUplink(t *testing.T) int {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.ETH_P_ALL<<8|unix.ETH_P_ALL>>8)
	if err == nil {
		var link *net.Interface
		if link, err = net.InterfaceByName(uplink); err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8, Ifindex: link.Index})
		}
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	}
	if err != nil {
		t.Error(err)
	}
	return fd
}

// sendFrame sends an IP packet to the gateway.
func sendFrame(t *testing.T, fd int, packet []byte) {
	// The gateway checks the destination only in the IP header; gVisor accepts groups.
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 0}, packet...)
	if len(packet) > 0 && packet[0]>>4 == 6 {
		frame[12], frame[13] = 0x86, 0xdd
	}
	if _, err := unix.Write(fd, frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
		t.Error(err)
	}
}

// synPacket returns an IPv4 packet with a TCP SYN.
func synPacket(from, to netip.Addr, source, port uint16) []byte {
	p := make([]byte, 40)
	p[0], p[3], p[8], p[9] = 0x45, 40, 64, unix.IPPROTO_TCP
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	binary.BigEndian.PutUint16(p[10:], sum(p[:20], 0))
	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp, source)
	binary.BigEndian.PutUint16(tcp[2:], port)
	binary.BigEndian.PutUint32(tcp[4:], 12345)
	tcp[12], tcp[13] = 5<<4, 2
	binary.BigEndian.PutUint16(tcp[14:], 65535)
	pseudo := uint32(unix.IPPROTO_TCP) + 20
	for n := 12; n < 20; n += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p[n:]))
	}
	binary.BigEndian.PutUint16(tcp[16:], sum(tcp, pseudo))
	return p
}

// sum returns the checksum of the Internet protocols.
func sum(data []byte, start uint32) uint16 {
	total := start
	for n := 0; n+1 < len(data); n += 2 {
		total += uint32(binary.BigEndian.Uint16(data[n:]))
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}

// TestMetadata checks --allow-metadata.
func TestMetadata(t *testing.T) {
	i := newInstance(t)
	if err := addAddress("169.254.169.254/32"); err != nil {
		t.Fatal(err)
	}
	serveTCP(t, "tcp4", "169.254.169.254:80", "credentials ")
	for _, allowed := range []bool{false, true} {
		args := map[bool][]string{true: {"--allow-metadata"}}[allowed]
		r := i.mustStart(args...)
		i.inNode(r, func() {
			if got := exchange("tcp", "169.254.169.254:80", 1); strings.HasPrefix(got, "credentials") != allowed {
				t.Errorf("allowed %v: %s", allowed, got)
			}
			if got := exchange("tcp", "169.254.169.253:80", 1); !strings.Contains(got, "refused") {
				t.Errorf("another link-local address: %s", got)
			}
		})
		i.killAndWait(r.PID)
	}
}

// TestResolver asks the gateway's resolver by UDP and TCP.
func TestResolver(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	if err := os.WriteFile("/etc/resolv.conf", []byte("search x\nnameserver 127.0.0.53\nnameserver 127.0.0.54\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.53\n"), 0o644) //nolint:errcheck // of the test
	// The first resolver answers with another ID, and with a query; the second one correctly.
	reply := func(at string, answer func(query []byte) [][]byte) {
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			buffer := make([]byte, 4096)
			for {
				n, from, err := c.ReadFrom(buffer)
				if err != nil {
					return
				}
				for _, a := range answer(buffer[:n]) {
					_, _ = c.WriteTo(a, from)
				}
			}
		}()
	}
	reply("127.0.0.53:53", func(q []byte) [][]byte {
		wrong := append([]byte{q[0] ^ 1, q[1], 0x80}, q[3:]...)
		return [][]byte{wrong, q, {1}}
	})
	reply("127.0.0.54:53", func(q []byte) [][]byte {
		return [][]byte{append([]byte{q[0], q[1], 0x81}, append(q[3:], "right"...)...)}
	})
	serveTCP(t, "tcp", "127.0.0.54:53", "by tcp ")
	query := append([]byte{7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "name"...)
	i.inNode(r, func() {
		c, err := dialer.Dial("udp", "192.0.0.1:53")
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write(query)
		buffer := make([]byte, 4096)
		n, err := c.Read(buffer)
		if got := string(buffer[:n]); err != nil || !strings.HasSuffix(got, "right") || buffer[0] != 7 || buffer[1] != 9 {
			t.Errorf("%q, %v", got, err)
		}
		if got := exchange("tcp", "192.0.0.1:53", 100); got != "by tcp 100" {
			t.Errorf("tcp: %q", got)
		}
	})
}

// TestPing sends echo requests of IPv4 and IPv6. Without a permission, there is no reply.
func TestPing(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	const sysctl = "/proc/sys/net/ipv4/ping_group_range"
	for _, c := range []struct {
		to, groups string
		want       bool
	}{
		{hostIP4, "1 0", false},
		{hostIP6, "1 0", false},
		{hostIP4, fmt.Sprintf("%d %d", testUser, testUser), true},
		{hostIP6, fmt.Sprintf("%d %d", testUser, testUser), true},
		{"10.99.0.77", fmt.Sprintf("%d %d", testUser, testUser), false}, // no such host
		{"fd99::77", fmt.Sprintf("%d %d", testUser, testUser), false},
		{"192.0.0.1", "1 0", true},
		{"fd00:706f:6472::1", "1 0", true},
	} {
		if err := os.WriteFile(sysctl, []byte(c.groups), 0); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{56, 3000} { // 3000: the packet is fragmented
			if size > 56 && c.want && !strings.HasPrefix(c.to, "192.") && !strings.HasPrefix(c.to, "fd00:") {
				continue // not forwarded
			}
			i.inNode(r, func() {
				if got := ping(t, netip.MustParseAddr(c.to), size); got != c.want {
					t.Errorf("ping %s with the groups %q and %d bytes: %v", c.to, c.groups, size, got)
				}
			})
		}
	}
}

// ping reports whether there is a reply to an echo request. It runs in N, as root.
func ping(t *testing.T, to netip.Addr, size int) bool {
	network, kind, echoReply := "ip4:icmp", byte(8), byte(0)
	if to.Is6() {
		network, kind, echoReply = "ip6:ipv6-icmp", 128, 129
	}
	c, err := dialer.Dial(network, to.String())
	if err != nil {
		t.Error(err)
		return false
	}
	defer c.Close()
	request := make([]byte, 8+size)
	request[0], request[4], request[5], request[7] = kind, 0x12, 0x34, 1
	if to.Is4() {
		binary.BigEndian.PutUint16(request[2:], sum(request, 0))
	}
	if _, err := c.Write(request); err != nil {
		t.Error(err)
		return false
	}
	_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	buffer := make([]byte, 8<<10)
	for {
		n, _, err := c.(*net.IPConn).ReadFrom(buffer) // Read would not remove the IPv4 header
		if err != nil {
			return false
		}
		reply := buffer[:n]
		if n == 8+size && reply[0] == echoReply && reply[4] == 0x12 && reply[5] == 0x34 {
			return true
		}
	}
}

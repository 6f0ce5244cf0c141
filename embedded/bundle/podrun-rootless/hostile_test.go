package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPortReuse connects repeatedly from the same port: a pod may do that as soon as the server has closed the first
// connection.
func TestPortReuse(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	for _, ends := range [][2]string{{"192.0.0.2", hostIP4}, {"fd00:706f:6472::2", hostIP6}} {
		l, err := net.Listen("tcp", net.JoinHostPort(ends[1], "7000"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close() // first
			}
		}()
		i.inNode(r, func() { reusePort(t, ends[0], l.Addr().String()) })
	}
}

func reusePort(t *testing.T, from, to string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from), Port: 5000}, Timeout: 20 * time.Second}
	for n := range 50 {
		c, err := d.Dial("tcp", to)
		for errors.Is(err, unix.EADDRINUSE) { // until the kernel has the last acknowledgment
			c, err = d.Dial("tcp", to)
		}
		if err != nil {
			t.Errorf("connection %d: %v", n, err)
			return
		}
		if data, err := c.Read(make([]byte, 1)); data != 0 || err == nil {
			t.Errorf("connection %d: %d, %v", n, data, err)
		}
		_ = c.Close()
	}
}

// works checks that the gateway forwards connections. It allows for the time after a flood.
func (i *instance) works(r *record) {
	i.Helper()
	serveTCP(i.T, "tcp4", hostIP4+":7000", "host ")
	i.inNode(r, func() {
		d := net.Dialer{Timeout: 60 * time.Second}
		c, err := d.Dial("tcp", hostIP4+":7000")
		if err != nil {
			i.Error(err)
			return
		}
		_ = c.Close()
		if got := exchange("tcp", hostIP4+":7000", 100_000); got != "host 100000" {
			i.Error(got)
		}
	})
	if !r.alive() {
		i.Error("podrun-rootless has ended")
	}
}

// usage returns the number of open files and the resident memory in MiB.
func usage(t *testing.T, pid int) (files, mib int) {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return len(entries), kib / 1024
}

// TestGarbage sends random and damaged frames to the gateway.
func TestGarbage(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	random := rand.New(rand.NewPCG(1, 2))
	bases := [][]byte{
		synPacket(netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr(hostIP4), 4000, 7999),
		udpPacket(netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr(hostIP4), 4000, 7998, []byte("data")),
		udpPacket(netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr("192.0.0.1"), 4000, 53, []byte("a query with garbage")),
		packet6(17, []byte{0x10, 0, 0x1f, 0x40, 0, 12, 0, 0, 1, 2, 3, 4}),
		packet6(58, []byte{128, 0, 0, 0, 1, 2, 3, 4, 5, 6}),
		packet6(44, []byte{58, 0, 0, 1, 1, 2, 3, 4, 128, 0, 0, 0, 1, 2, 3, 4}),
		packet6(0, []byte{6, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4}),
	}
	i.inNode(r, func() {
		fd := openUplink(t)
		defer unix.Close(fd)
		for n := range 60_000 {
			p := append([]byte(nil), bases[n%len(bases)]...)
			for range random.IntN(4) {
				at := random.IntN(len(p))
				if p[0]>>4 == 4 && at >= 12 && at < 16 || p[0]>>4 == 6 && at >= 8 && at < 24 {
					continue // the source must pass the filter
				}
				p[at] = byte(random.Uint32())
			}
			if random.IntN(8) == 0 {
				p = p[:random.IntN(len(p))]
			}
			if random.IntN(8) == 0 {
				for range random.IntN(1400) {
					p = append(p, byte(random.Uint32()))
				}
			}
			if len(p) > 0 {
				sendFrame(t, fd, p)
			}
		}
	})
	i.works(r)
}

// packet6 returns an IPv6 packet to the host.
func packet6(next byte, payload []byte) []byte {
	p := make([]byte, 40, 40+len(payload))
	p[0], p[5], p[6], p[7] = 0x60, byte(len(payload)), next, 64
	copy(p[8:], netip.MustParseAddr("fd00:706f:6472::2").AsSlice())
	copy(p[24:], netip.MustParseAddr(hostIP6).AsSlice())
	return append(p, payload...)
}

// udpPacket returns an IPv4 packet with a UDP datagram without a checksum.
func udpPacket(from, to netip.Addr, source, port uint16, data []byte) []byte {
	p := synPacket(from, to, source, port)[:28]
	p[2], p[3], p[9], p[10], p[11] = 0, byte(28+len(data)), 17, 0, 0
	s := sum(p[:20], 0)
	p[10], p[11] = byte(s>>8), byte(s)
	p[24], p[25], p[26], p[27] = 0, byte(8+len(data)), 0, 0
	return append(p, data...)
}

// TestForgedSource sends packets with other sources than the uplink's address.
func TestForgedSource(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	i.inNode(r, func() {
		for _, from := range []string{"10.65.0.9", "192.0.0.1", "192.0.0.3", hostIP4, "127.0.0.1", "0.0.0.0"} {
			if got := rawSYN(t, netip.MustParseAddr(from), netip.MustParseAddr(hostIP4), 7999); got != "no answer" {
				t.Errorf("from %s: %s", from, got)
			}
		}
	})
}

// TestSYNFlood sends more connection requests than the gateway has handshakes, to a host that does not answer.
func TestSYNFlood(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	i.inNode(r, func() {
		fd := openUplink(t)
		defer unix.Close(fd)
		for n := range 30_000 {
			sendFrame(t, fd, synPacket(netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr("10.99.0.50"), uint16(1024+n), uint16(80+n/20_000)))
		}
	})
	files, mib := usage(t, r.PID)
	t.Logf("%d files, %d MiB", files, mib)
	if files > 1200 || mib > 300 {
		t.Errorf("%d files, %d MiB", files, mib)
	}
	i.works(r)
}

// TestUDPFlood sends datagrams to many destinations.
func TestUDPFlood(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	silent, err := net.ListenPacket("udp4", hostIP4+":7003")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	i.inNode(r, func() {
		fd := openUplink(t)
		defer unix.Close(fd)
		for n := range 30_000 {
			sendFrame(t, fd, udpPacket(netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr(hostIP4), uint16(1024+n), 7003, []byte("x")))
		}
	})
	files, mib := usage(t, r.PID)
	t.Logf("%d files, %d MiB", files, mib)
	if files > 4400 || mib > 500 {
		t.Errorf("%d files, %d MiB", files, mib)
	}
	i.works(r)
	serveUDP(t, "udp4", hostIP4+":7001", "udp ")
	i.inNode(r, func() {
		if got := exchange("udp", hostIP4+":7001", 10); got != "udp 10" {
			t.Error(got)
		}
	})
}

// TestStalledConnections opens connections whose data a pod does not read.
func TestStalledConnections(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	l, err := net.Listen("tcp", hostIP4+":7002")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	written := make(chan struct{}, 1000)
	data := make([]byte, 8<<20)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
				_, _ = c.Write(data)
				written <- struct{}{}
			}()
		}
	}()
	const connections = 300
	i.inNode(r, func() {
		for range connections {
			c, err := dialer.Dial("tcp", hostIP4+":7002")
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	})
	for range connections {
		<-written
	}
	files, mib := usage(t, r.PID)
	t.Logf("%d files, %d MiB", files, mib)
	if mib > 500 {
		t.Errorf("%d MiB", mib)
	}
	i.works(r)
}

// TestUDPSegmentation sends several datagrams with one call, as QUIC does.
func TestUDPSegmentation(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	c, err := net.ListenPacket("udp4", hostIP4+":7001")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	i.inNode(r, func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		to := &unix.SockaddrInet4{Port: 7001, Addr: netip.MustParseAddr(hostIP4).As4()}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1000); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Sendto(fd, make([]byte, 2500), 0, to); err != nil {
			t.Error(err)
		}
	})
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	for _, want := range []int{1000, 1000, 500} {
		if n, _, err := c.ReadFrom(make([]byte, 4000)); err != nil || n != want {
			t.Errorf("%d bytes, want %d: %v", n, want, err)
		}
	}
}

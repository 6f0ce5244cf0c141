package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

// TestSpeed measures the throughput and the latency of the gateway and of host ports. It has no limits: set
// PODRUN_ROOTLESS_SPEED to print the figures.
func TestSpeed(t *testing.T) {
	if os.Getenv("PODRUN_ROOTLESS_SPEED") == "" {
		t.Skip("PODRUN_ROOTLESS_SPEED is not set")
	}
	i := newInstance(t)
	r := i.mustStart()
	l, err := net.Listen("tcp", hostIP4+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serveSpeed(l)
	i.inNode(r, func() {
		l, err := net.Listen("tcp", "192.0.0.2:80")
		if err != nil {
			t.Error(err)
			return
		}
		go serveSpeed(l)
	})
	i.add("a/eth0", 7100)
	for range 3 {
		i.inNode(r, func() { t.Log("out of N:  " + measure(hostIP4+":7000")) })
		t.Log("host port: " + measure("127.0.0.1:7100"))
		t.Log("loopback:  " + measure(hostIP4+":7000"))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", status)
}

const speedBytes = 1 << 30

// serveSpeed answers: r sends data, w receives data, anything else is echoed.
func serveSpeed(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b := make([]byte, 1<<20)
			for {
				n, err := c.Read(b[:1])
				if n == 0 || err != nil {
					return
				}
				switch b[0] {
				case 'r':
					for sent := 0; sent < speedBytes; sent += len(b) {
						_, _ = c.Write(b)
					}
					return
				case 'w':
					_, _ = io.CopyN(io.Discard, c, speedBytes)
					_, _ = c.Write(b[:1])
					return
				}
				_, _ = c.Write(b[:1])
			}
		}()
	}
}

func measure(to string) string {
	gbit := func(d time.Duration) float64 { return speedBytes * 8 / d.Seconds() / 1e9 }
	dial := func() net.Conn {
		c, err := dialer.Dial("tcp", to)
		if err != nil {
			panic(err)
		}
		return c
	}
	b := make([]byte, 1<<20)
	c := dial()
	begin := time.Now()
	_, _ = c.Write([]byte("w"))
	for sent := 0; sent < speedBytes; sent += len(b) {
		_, _ = c.Write(b)
	}
	_, _ = c.Read(b)
	send := time.Since(begin)
	_ = c.Close()
	c = dial()
	begin = time.Now()
	_, _ = c.Write([]byte("r"))
	n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, b)
	receive := time.Since(begin)
	if n != speedBytes {
		panic(fmt.Sprint(n, err))
	}
	_ = c.Close()
	c = dial()
	var trips, connects []time.Duration
	for range 1000 {
		begin := time.Now()
		_, _ = c.Write([]byte("e"))
		_, _ = c.Read(b[:1])
		trips = append(trips, time.Since(begin))
	}
	_ = c.Close()
	for range 300 {
		begin := time.Now()
		c := dial()
		_, _ = c.Write([]byte("e"))
		_, _ = c.Read(b[:1])
		connects = append(connects, time.Since(begin))
		_ = c.Close()
	}
	slices.Sort(trips)
	slices.Sort(connects)
	return fmt.Sprintf("send %.1f, receive %.1f Gbit/s, round trip %s, connect and round trip %s", gbit(send), gbit(receive), trips[500], connects[150])
}

package nodeapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/test/patience"
)

// flood is the number of connections that an attacker opens. floodMemory is the maximum memory that
// these connections may use.
const (
	flood       = 400
	floodMemory = 64 << 20
)

// floods opens flood connections that send the same text, and keeps them open. If answer is true,
// it waits for a response on each connection.
func floods(t *testing.T, dial func() (net.Conn, error), text string, answer bool) {
	t.Helper()
	for range flood {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, text); err == nil && answer {
			patience.Deadline(t, c, patience.OnFake)
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
}

// answers checks that another client gets immediate responses to repeated requests.
func answers(t *testing.T, c *http.Client, url string) {
	t.Helper()
	patience.Within(t, int(headerTimeout/time.Second), "five requests of another client", func() {
		for range 5 {
			resp, err := c.Get(url)
			if err != nil {
				t.Fatalf("another client: %v", err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("another client: %s", resp.Status)
			}
			c.CloseIdleConnections()
		}
	})
	runtime.GC() // garbage is not in use
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapInuse+m.StackInuse > floodMemory {
		t.Errorf("%d MiB of memory are in use", (m.HeapInuse+m.StackInuse)>>20)
	}
}

// TestIdleClients covers clients that keep connections open, and clients that occupy all
// streams. Neither must block other clients.
func TestIdleClients(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		answer bool
	}{
		"silent":        {},
		"half a header": {text: "GET /heal"},
		"keep-alive":    {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"streams":       {"GET /containerLogs/a/b/c?follow=true HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"not found":     {strings.Repeat("GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 20), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, c, path := serveSocket(t, testBackend(1))
			floods(t, func() (net.Conn, error) { return DialUnix(t.Context(), path) }, test.text, test.answer)
			answers(t, c, "http://podrun/healthz")
		})
	}
}

// serveTLS serves a backend on a TCP listener, and returns the listener's address.
func serveTLS(t *testing.T, with testTLS) (address string) {
	t.Helper()
	l, err := ListenTLS(t.Context(), "127.0.0.1:0", with.files)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(testBackend(1))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return l.Addr().String()
}

// TestHandshakes covers clients of the TCP listener that have not presented a certificate. They
// must not block clients that have one.
func TestHandshakes(t *testing.T) {
	with := newTLS(t)
	address := serveTLS(t, with)
	c := patience.Client(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: with.roots, Certificates: []tls.Certificate{with.client}}})
	url := "https://" + address + "/healthz"

	// A client with a certificate must keep its connection.
	kept := patience.Client(t, &http.Transport{MaxConnsPerHost: 1,
		TLSClientConfig: &tls.Config{RootCAs: with.roots, Certificates: []tls.Certificate{with.client}},
		DialContext: func() func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed := 0
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				if dialed++; dialed > 1 {
					t.Error("the connection of a client with a certificate was closed")
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
		}()})
	get := func() {
		resp, err := kept.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	get()
	floods(t, func() (net.Conn, error) { return net.Dial("tcp", address) }, "", false)
	answers(t, c, url)
	floods(t, func() (net.Conn, error) { return net.Dial("tcp", address) }, "\x16\x03\x01\x02\x00\x01", false)
	answers(t, c, url)
	get()
	kept.CloseIdleConnections()
}

// TestSilentClients checks that the server disconnects a client that does not complete the
// handshake, or a header, within headerTimeout.
func TestSilentClients(t *testing.T) {
	_, _, path := serveSocket(t, testBackend(1))
	with := newTLS(t)
	address := serveTLS(t, with)
	secure := &tls.Dialer{Config: &tls.Config{RootCAs: with.roots, Certificates: []tls.Certificate{with.client}}}
	for name, test := range map[string]struct {
		dial func() (net.Conn, error)
		text string
	}{
		"socket":               {func() (net.Conn, error) { return DialUnix(t.Context(), path) }, ""},
		"socket, half":         {func() (net.Conn, error) { return DialUnix(t.Context(), path) }, "GET /healthz HTTP/1.1\r\nX: "},
		"no handshake":         {func() (net.Conn, error) { return net.Dial("tcp", address) }, ""},
		"half a handshake":     {func() (net.Conn, error) { return net.Dial("tcp", address) }, "\x16\x03\x01\x02\x00\x01"},
		"handshake, no header": {func() (net.Conn, error) { return secure.DialContext(t.Context(), "tcp", address) }, "GET /"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := test.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, test.text); err != nil {
				t.Fatal(err)
			}
			patience.Deadline(t, c, 10*int(headerTimeout/time.Second))
			if data, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("still connected: %q %v", data, err)
			}
		})
	}
}

package cri_test

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/test/ring"
)

// TestDialPort connects to a server on localhost in the network namespace of a process,
// here the test's own.
func TestDialPort(t *testing.T) {
	ring.RequireRoot(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		data, _ := io.ReadAll(conn) // ReadAll returns after the client's CloseWrite.
		_, _ = conn.Write(append([]byte("got "), data...))
	}()
	port := l.Addr().(*net.TCPAddr).Port
	c, err := cri.DialPort(t.Context(), os.Getpid(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("this")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(c); string(data) != "got this" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	// No other process can listen on the client's port while this connection exists.
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := cri.DialPort(t.Context(), os.Getpid(), client.LocalAddr().(*net.TCPAddr).Port); err == nil {
		t.Error("no error for a port without a listener")
	}
	if _, err := cri.DialPort(t.Context(), 1<<30, port); err == nil {
		t.Error("no error for a process that does not exist")
	}
}

package main

import (
	"net"
	"testing"
)

func TestStream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serveStreams(l)
	for _, direction := range []string{"send", "receive"} {
		for _, bytes := range []uint64{0, 1, chunk + 1} {
			if _, err := stream(direction, l.Addr().String(), bytes); err != nil {
				t.Errorf("%s %d: %v", direction, bytes, err)
			}
		}
	}
}

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// A stream is data on a TCP connection. The client first sends a header: the direction and the number of bytes.

// streamHeader is the header. Send is true if the client sends.
type streamHeader struct {
	Send  bool
	Bytes uint64
}

// chunk is the size of a write.
const chunk = 256 << 10

// runStream runs `bench -stream`: it serves streams at an address, or makes one and prints its time.
func runStream(direction, address string) error {
	if direction == "serve" {
		l, err := net.Listen("tcp", address)
		if err == nil {
			serveStreams(l)
		}
		return err
	}
	took, err := stream(direction, address, streamBytes)
	if err == nil {
		fmt.Println(took)
	}
	return err
}

// serveStreams serves streams until the listener is closed.
func serveStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var h streamHeader
			if binary.Read(c, binary.LittleEndian, &h) != nil {
				return
			}
			if !h.Send {
				_ = sendBytes(c, h.Bytes) // the client reports an error
			} else if _, err := io.CopyN(io.Discard, c, int64(h.Bytes)); err == nil {
				_, _ = c.Write([]byte{1})
			}
		}()
	}
}

// stream sends or receives a number of bytes, and returns the time until all of them have arrived.
func stream(direction, address string, bytes uint64) (time.Duration, error) {
	begin := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	send := direction == "send"
	if err := binary.Write(c, binary.LittleEndian, streamHeader{send, bytes}); err != nil {
		return 0, err
	}
	if send {
		if err = sendBytes(c, bytes); err == nil {
			_, err = io.ReadFull(c, make([]byte, 1)) // the server has received all
		}
	} else {
		_, err = io.CopyN(io.Discard, c, int64(bytes))
	}
	return time.Since(begin), err
}

func sendBytes(w io.Writer, n uint64) error {
	data := make([]byte, chunk)
	for n > 0 {
		part := data[:min(n, chunk)]
		if _, err := w.Write(part); err != nil {
			return err
		}
		n -= uint64(len(part))
	}
	return nil
}

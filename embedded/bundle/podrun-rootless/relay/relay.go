// Package relay copies data between connections.
package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// IdleLimit is the time without data after which a connection ends of which one side is closed.
const IdleLimit = 10 * time.Minute

// Buffers contains buffers of 64 KiB, as pointers to slices. A larger size is not faster, and each connection
// whose receiver does not read keeps one.
var Buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// Copy copies until the end of data. It uses a buffer only while there is data. It is faster than splice(2), which
// requires two calls for each part, and a pipe for each direction.
func Copy(to io.Writer, from *net.TCPConn) (copied int64, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	for {
		var buffer *[]byte
		var n int
		var failure error
		err := raw.Read(func(fd uintptr) bool {
			buffer = Buffers.Get().(*[]byte)
			n, failure = Read(fd, *buffer)
			if failure == unix.EAGAIN {
				Buffers.Put(buffer)
				return false
			}
			return true
		})
		if err != nil {
			return copied, err
		}
		end := n == 0
		if failure == nil && !end {
			n, failure = to.Write((*buffer)[:n])
			copied += int64(n)
		}
		Buffers.Put(buffer)
		if failure != nil || end {
			return copied, failure
		}
	}
}

// Read reads from a socket that does not block. After EINTR, it must not wait for the next event, because the
// network poller reports each event once.
func Read(fd uintptr, buffer []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), buffer)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Datagrams calls deliver for each datagram that a socket receives, until the socket is closed or a receive fails with
// an error that is not transient. It takes one of Buffers, which are as large as the largest datagram, only if there is a datagram, so that idle
// flows have none.
func Datagrams(from syscall.Conn, transient func(error) bool, deliver func(datagram []byte)) {
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	for {
		var n int
		var failure error
		var buffer *[]byte
		err := raw.Read(func(fd uintptr) bool {
			buffer = Buffers.Get().(*[]byte)
			n, failure = Read(fd, *buffer)
			if failure == unix.EAGAIN {
				Buffers.Put(buffer)
				return false
			}
			return true
		})
		if err != nil {
			return
		}
		if failure == nil {
			deliver((*buffer)[:n])
		}
		Buffers.Put(buffer)
		if failure != nil && !transient(failure) {
			return
		}
	}
}

// UntilIdle calls copy again if its deadline expires, as long as there was data since the last one. There is a
// deadline only after the other direction has ended.
func UntilIdle(from interface{ SetReadDeadline(time.Time) error }, copy func() (int64, error)) error {
	for {
		n, err := copy()
		var timeout net.Error
		if n == 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
			return err
		}
		if err := from.SetReadDeadline(time.Now().Add(IdleLimit)); err != nil {
			return err
		}
	}
}

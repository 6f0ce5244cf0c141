package safepath

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// listBuffer is the size of one batch of directory entries: about 1,000 names.
const listBuffer = 32 << 10

// Offsets in a linux_dirent64, which getdents64(2) fills in.
const (
	entryCookie = 8  // where in the directory the next entry is
	entryLength = 16 // of the whole entry, in 2 bytes
	entryName   = 19 // ends with a zero byte
)

// listBuffers has the buffers of closed listings: a pod may have thousands of directories.
var listBuffers = sync.Pool{New: func() any { return new([listBuffer]byte) }}

// Listing reads the names of a directory in batches. A container decides how
// many names a directory has: memory must not depend on it (600,000 files took
// 338 MB).
type Listing struct {
	ctx  context.Context
	fd   int               // the directory, whose read position is the listing's
	buf  *[listBuffer]byte // of listBuffers; nil after Close
	left []byte            // of the batch, what Next has not returned
	next int64             // cookie of the entry after the one that was returned last
}

// List lists an open directory from its start, with a separate descriptor: the caller
// closes it with Close. The listing ends with the context.
func List(ctx context.Context, dir int) (*Listing, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	l := &Listing{ctx: ctx}
	l.open(fd)
	return l, nil
}

// open gives the listing a descriptor, which it closes, and a buffer.
func (l *Listing) open(fd int) {
	l.fd, l.buf = fd, listBuffers.Get().(*[listBuffer]byte)
}

// Close closes the listing's descriptor. Another call does nothing.
func (l *Listing) Close() {
	if l.buf == nil {
		return
	}
	unix.Close(l.fd)
	listBuffers.Put(l.buf)
	l.fd, l.buf, l.left = -1, nil, nil
}

// Next returns the next name, leaving out "." and "..", in the directory's order.
// The error is io.EOF after the last name, ENOENT if the directory was removed,
// and the context's cause when that has ended.
func (l *Listing) Next() (string, error) {
	for {
		if err := l.fill(); err != nil {
			return "", err
		}
		length := int(binary.NativeEndian.Uint16(l.left[entryLength:]))
		name, _, _ := bytes.Cut(l.left[entryName:length], []byte{0})
		l.next = int64(binary.NativeEndian.Uint64(l.left[entryCookie:]))
		l.left = l.left[length:]
		if text := string(name); text != "." && text != ".." {
			return text, nil
		}
	}
}

// fill reads the next batch if the last one is used up.
func (l *Listing) fill() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if len(l.left) > 0 {
		return nil
	}
	n, err := unix.Getdents(l.fd, l.buf[:])
	for err == unix.EINTR {
		n, err = unix.Getdents(l.fd, l.buf[:])
	}
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	l.left = l.buf[:n]
	return nil
}

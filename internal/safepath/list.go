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

// These are the offsets of fields in a linux_dirent64, which getdents64(2) returns.
const (
	// entryCookie is the offset of the cookie: the position of the next entry in the directory.
	entryCookie = 8
	// entryLength is the offset of the entry's length, which has 2 bytes.
	entryLength = 16
	// entryName is the offset of the name, which ends with a zero byte.
	entryName = 19
)

// listBuffers contains the buffers of closed listings, for reuse. A pod may have thousands of
// directories.
var listBuffers = sync.Pool{New: func() any { return new([listBuffer]byte) }}

// Listing reads the names in a directory in batches. A container can create any number of names, so
// the use of memory must not depend on it. In an earlier version, a listing of 600,000 files used
// 338 MB.
type Listing struct {
	ctx  context.Context
	fd   int               // the directory; its read position is the position of the listing
	buf  *[listBuffer]byte // from listBuffers; nil before the first batch, and after release or Close
	left []byte            // part of the batch that Next has not returned yet
	// next is the cookie of the entry after the last one that Next returned.
	next int64
}

// List lists an open directory from its start. The listing has its own descriptor. The caller
// must release it with Close. When ctx is done, Next fails.
func List(ctx context.Context, dir int) (*Listing, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Listing{ctx: ctx, fd: fd}, nil
}

// release frees the listing's buffer. Next reads the rest of the batch again.
func (l *Listing) release() {
	if l.buf != nil {
		listBuffers.Put(l.buf)
		l.buf, l.left = nil, nil
	}
}

// Close closes the listing's descriptor. It has no effect if the listing is already closed.
func (l *Listing) Close() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.release()
		l.fd = -1
	}
}

// Next returns the next name in the directory's order. It omits "." and "..". The error is
// io.EOF after the last name, and ENOENT if the directory was removed. After the context has
// ended, the error is the context's cause.
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

// fill reads the next batch of entries. Next calls it after it has returned all names of the
// previous batch.
func (l *Listing) fill() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if len(l.left) > 0 {
		return nil
	}
	if l.buf == nil {
		l.buf = listBuffers.Get().(*[listBuffer]byte)
		if _, err := unix.Seek(l.fd, l.next, io.SeekStart); err != nil {
			return err
		}
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

// Package hostfile reads and writes files of the host that another process, a user or a
// container may write, replace or block. A read accepts only a regular file (except ReadInput),
// is limited to a number of bytes, and ends when its context ends. A write is atomic: it
// replaces the whole file or leaves the file unchanged. A wait for a lock ends when its context
// ends.
package hostfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotRegular means that the path is a directory, FIFO, device or socket. Functions that do
	// not follow symbolic links return it for a symbolic link too.
	ErrNotRegular = errors.New("is not a regular file")
	// ErrTooLarge means that the file is larger than the caller's limit.
	ErrTooLarge = errors.New("file too large")
)

// tooLarge is an ErrTooLarge whose text contains the limit.
type tooLarge struct{ limit int64 }

func (e tooLarge) Error() string {
	switch {
	case e.limit >= 1<<20 && e.limit%(1<<20) == 0:
		return fmt.Sprintf("larger than the limit of %d MiB", e.limit>>20)
	case e.limit >= 1<<10 && e.limit%(1<<10) == 0:
		return fmt.Sprintf("larger than the limit of %d KiB", e.limit>>10)
	}
	return fmt.Sprintf("larger than the limit of %d bytes", e.limit)
}

func (tooLarge) Is(target error) bool { return target == ErrTooLarge }

// TooLarge returns an ErrTooLarge whose text contains the limit, in bytes. It is for callers that read the content
// themselves.
func TooLarge(limit int64) error { return tooLarge{limit} }

// readFlags make open(2) return without waiting for the writer of a FIFO. They also prevent a terminal from
// becoming the controlling terminal.
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// Read reads a regular file of at most limit bytes. The files of procfs, sysfs and cgroupfs are
// regular. The error is an *fs.PathError. It wraps ErrNotRegular, ErrTooLarge, the system's error,
// or both the context's cause and its error (context.Canceled or context.DeadlineExceeded). If a file
// system does not respond (NFS, FUSE), Read returns when the context ends.
//
// Read follows symbolic links. If a container or an unprivileged user can change the path, use
// ReadNoFollow or ReadBelow.
func Read(ctx context.Context, path string, limit int64) ([]byte, error) {
	return within(ctx, path, func() ([]byte, error) {
		return readAll(ctx, path, limit, func() (int, error) { return unix.Open(path, readFlags, 0) })
	})
}

// ReadNoFollow is like Read, but returns ErrNotRegular if the last element of the path is a
// symbolic link.
func ReadNoFollow(ctx context.Context, path string, limit int64) ([]byte, error) {
	return within(ctx, path, func() ([]byte, error) {
		return readAll(ctx, path, limit, func() (int, error) { return openNoFollow(path) })
	})
}

// ReadBelow is like Read, but resolves the path as if root were the root of the file system.
// Symbolic links and ".." do not lead out of root, and magic links (/proc/PID/root, /proc/PID/fd/N)
// fail with ELOOP. The argument root itself may be a magic link. ReadBelow checks that the file is
// regular before it opens the file for reading, so it never opens a device or a FIFO.
func ReadBelow(ctx context.Context, root, path string, limit int64) ([]byte, error) {
	return within(ctx, path, func() ([]byte, error) {
		return readAll(ctx, path, limit, func() (int, error) { return openBelow(root, path) })
	})
}

// ReadInput reads a file of at most limit bytes that the user named on the command line. Unlike
// Read, it accepts files that are not regular: a user may pass the pipe of a shell's
// <(command).
func ReadInput(ctx context.Context, path string, limit int64) ([]byte, error) {
	return within(ctx, path, func() ([]byte, error) {
		fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0) })
		if err != nil {
			return nil, failed("open", path, err)
		}
		defer unix.Close(fd)
		return readLimited(ctx, path, fd, 0, limit)
	})
}

// ReadHead reads the first n bytes of a regular file, or the whole file if it is shorter. It
// follows symbolic links.
func ReadHead(ctx context.Context, path string, n int64) ([]byte, error) {
	return within(ctx, path, func() ([]byte, error) {
		return readPart(ctx, path, func() (int, error) { return unix.Open(path, readFlags, 0) },
			func(int64) (int64, int64) { return 0, n })
	})
}

// ReadTail reads the last n bytes of a regular file, or the whole file if it is shorter. It
// follows symbolic links.
func ReadTail(ctx context.Context, path string, n int64) ([]byte, error) {
	return readTail(ctx, path, n, func() (int, error) { return unix.Open(path, readFlags, 0) })
}

// ReadTailNoFollow is like ReadTail, but returns ErrNotRegular if the last element of the path is a
// symbolic link.
func ReadTailNoFollow(ctx context.Context, path string, n int64) ([]byte, error) {
	return readTail(ctx, path, n, func() (int, error) { return openNoFollow(path) })
}

func readTail(ctx context.Context, path string, n int64, open func() (int, error)) ([]byte, error) {
	return within(ctx, path, func() ([]byte, error) {
		return readPart(ctx, path, open, func(size int64) (int64, int64) { return max(0, size-n), min(n, size) })
	})
}

// Open opens a regular file for reading. Callers use it to read a part of the file, or if they need
// the descriptor. It never waits for the writer of a FIFO. It follows symbolic links.
func Open(path string) (*os.File, error) {
	return openFile(path, func() (int, error) { return unix.Open(path, readFlags, 0) })
}

// OpenNoFollow is like Open, but returns ErrNotRegular if the last element of the path is a
// symbolic link.
func OpenNoFollow(path string) (*os.File, error) {
	return openFile(path, func() (int, error) { return openNoFollow(path) })
}

func openFile(path string, open func() (int, error)) (*os.File, error) {
	fd, err := retry(open)
	if err != nil {
		return nil, failed("open", path, err)
	}
	if _, err := regular(fd); err != nil {
		unix.Close(fd)
		return nil, failed("open", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// within calls read. It returns when read returns or the context ends. A system call that hangs
// occupies its thread and its descriptor until it returns.
func within(ctx context.Context, path string, read func() ([]byte, error)) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, failed("read", path, ended(ctx))
	}
	if ctx.Done() == nil {
		return read()
	}
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, failed("read", path, ended(ctx))
	}
}

// endedError is the error of an operation that the end of a context interrupted. The cause may be any error,
// such as a signal. The error of the context shows that the file is not at fault.
type endedError struct{ cause, err error }

func (e endedError) Error() string   { return e.cause.Error() }
func (e endedError) Unwrap() []error { return []error{e.cause, e.err} }

// ended returns nil while the context has not ended.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return endedError{context.Cause(ctx), ctx.Err()}
}

// openRegular opens a regular file for reading and returns its size.
func openRegular(path string, open func() (int, error)) (fd int, size int64, err error) {
	if fd, err = retry(open); err != nil {
		return -1, 0, failed("open", path, err)
	}
	if size, err = regular(fd); err != nil {
		unix.Close(fd)
		return -1, 0, failed("read", path, err)
	}
	return fd, size, nil
}

func readAll(ctx context.Context, path string, limit int64, open func() (int, error)) ([]byte, error) {
	fd, size, err := openRegular(path, open)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if size > limit {
		return nil, failed("read", path, tooLarge{limit})
	}
	// The size is only a hint, because it is 0 in procfs, and a file may grow.
	return readLimited(ctx, path, fd, size, limit)
}

// readLimited reads to the end of a file. It fails if the file has more than limit bytes.
func readLimited(ctx context.Context, path string, fd int, size, limit int64) ([]byte, error) {
	data, err := readUpTo(ctx, fd, size, -1, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = tooLarge{limit}
	}
	if err != nil {
		return nil, failed("read", path, err)
	}
	return data, nil
}

// readPart reads a part of a file. The function part receives the file's size and returns the
// offset and the length of the part.
func readPart(ctx context.Context, path string, open func() (int, error), part func(size int64) (offset, n int64)) ([]byte, error) {
	fd, size, err := openRegular(path, open)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	offset, n := part(size)
	data, err := readUpTo(ctx, fd, size-offset, offset, n)
	if err != nil {
		return nil, failed("read", path, err)
	}
	return data, nil
}

// readUpTo reads at most n bytes from an offset. If the offset is negative, it reads from the
// current position. The buffer grows as needed. The argument expected is the expected number of
// bytes, or 0 if it is unknown. When readUpTo has read exactly this number, it does not check
// whether it has reached the end of the file.
func readUpTo(ctx context.Context, fd int, expected, offset, n int64) ([]byte, error) {
	first := int64(4 << 10)
	if expected > 0 {
		// A read of one more byte shows whether the file has grown.
		first = expected + 1
	}
	data := make([]byte, 0, min(n, first))
	for int64(len(data)) < n && ctx.Err() == nil {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, min(n, 2*int64(cap(data)))), data...)
		}
		got, err := retry(func() (int, error) {
			if offset < 0 {
				return unix.Read(fd, data[len(data):cap(data)])
			}
			return unix.Pread(fd, data[len(data):cap(data)], offset+int64(len(data)))
		})
		if err != nil || got <= 0 {
			return data, err
		}
		data = data[:len(data)+got]
		if int64(len(data)) == expected && len(data) < cap(data) {
			break
		}
	}
	return data, ended(ctx)
}

// regular returns the size of an open regular file.
func regular(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, ErrNotRegular
	}
	return st.Size, nil
}

func openNoFollow(path string) (int, error) {
	fd, err := unix.Open(path, readFlags|unix.O_NOFOLLOW, 0)
	if err == unix.ELOOP {
		// ELOOP means either that path itself is a symbolic link, or that its parent directories
		// have too many links.
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			return fd, ErrNotRegular
		}
	}
	return fd, err
}

// StatBelow calls stat(2) for a path. It resolves the path like ReadBelow. It does not open the
// file, so the file may have any type.
func StatBelow(root, path string) (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := lookUpBelow(root, path)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return st, failed("stat", path, err)
	}
	return st, nil
}

// lookups is the number of attempts of lookUpBelow if a path changes while the kernel resolves it.
const lookups = 32

// openBelow opens a path below a root in two steps. The first step uses O_PATH, because opening a
// device may have an effect (a tape rewinds, a watchdog starts).
func openBelow(root, path string) (int, error) {
	at, err := lookUpBelow(root, path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if _, err := regular(at); err != nil {
		return -1, err
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), readFlags, 0)
}

// lookUpBelow resolves a path below a root. It returns an O_PATH descriptor.
func lookUpBelow(root, path string) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	// EAGAIN means that a process has renamed something during the lookup. If a process renames
	// files continuously, lookUpBelow returns an error instead of looping forever.
	for range lookups {
		fd, err := unix.Openat2(dir, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// retry makes a system call, and repeats it if a signal interrupts it.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func failed(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}

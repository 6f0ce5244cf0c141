package imagestore

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A compressed archive may unpack to at most maxUnpacked bytes, or maxRatio times its compressed
// size if that is more. If the archive comes from a pipe, its size is the number of bytes read so
// far. Without a limit, 4 MB of gzip data could unpack to 4 GB of zeros. Images unpack to 2 to 10
// times their compressed size.
const (
	maxUnpacked = 256 << 20
	maxRatio    = 100
)

// tarWithin calls tarFile, and returns early if ctx ends. A read from a pipe cannot be
// interrupted, so tarFile then continues in the background. Its spool file has no name, so the
// kernel removes the file when the process exits.
func tarWithin(ctx context.Context, dir string, archive io.Reader) (*os.File, func(), error) {
	type result struct {
		file *os.File
		done func()
		err  error
	}
	ready := make(chan result, 1)
	go func() {
		file, done, err := tarFile(ctx, dir, archive)
		ready <- result{file, done, err}
	}()
	select {
	case r := <-ready:
		return r.file, r.done, r.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// tarFile returns an archive as an uncompressed file with random access. If archive is such a file,
// tarFile returns it; otherwise it returns a copy in dir.
func tarFile(ctx context.Context, dir string, archive io.Reader) (file *os.File, done func(), err error) {
	f, ok := archive.(*os.File)
	read := &countingReader{ctx: ctx, from: archive}
	in := bufio.NewReader(read)
	magic, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	var from io.Reader = in
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		from = &ratioReader{from: unpacked, size: sizeOf(f), packed: read}
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z'}), bytes.HasPrefix(magic, []byte("BZh")):
		return nil, nil, errors.New("is compressed with zstd, xz or bzip2: decompress it first, as in 'zstdcat FILE | podrun image load -'")
	case ok:
		if sizeOf(f) > 0 {
			_, err := f.Seek(0, io.SeekStart)
			return f, func() {}, err
		}
	}
	if file, err = spool(dir, from); err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil
}

// sizeOf returns the size of a regular file in bytes, or 0 for other files.
func sizeOf(f *os.File) int64 {
	if f == nil {
		return 0
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

// spool copies input that can be read only once into an unnamed file in dir. The caller passes the
// root directory as dir, because its file system has space for images, whereas the directory for
// temporary files may be in memory.
func spool(dir string, r io.Reader) (*os.File, error) {
	f, err := unnamed(dir)
	if err != nil {
		return nil, fmt.Errorf("copy the archive to the root directory: %w", err)
	}
	if _, err := io.Copy(f, r); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the archive to the root directory: %w", err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unnamed creates a file without a name in dir. It creates dir if it does not exist.
func unnamed(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	f, err := os.CreateTemp(dir, ".load-") // the file system does not support O_TMPFILE
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// countingReader counts the bytes read, and fails when its context ends.
type countingReader struct {
	ctx  context.Context
	from io.Reader
	n    int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.from.Read(p)
	if c.ctx.Err() != nil { // the context ended during a read from a pipe
		return 0, context.Cause(c.ctx)
	}
	c.n += int64(n)
	return n, err
}

// ratioReader fails when an archive unpacks to more bytes than its compressed size permits.
type ratioReader struct {
	from   io.Reader
	size   int64 // the size of the compressed archive; 0 if unknown
	packed *countingReader
	n      int64
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.n += int64(n)
	if r.n > maxUnpacked && r.n > maxRatio*max(r.size, r.packed.n) {
		return 0, fmt.Errorf("it decompresses to more than %d times its size: if it is an image, decompress it first, as in 'zcat FILE | podrun image load -'", maxRatio)
	}
	return n, err
}

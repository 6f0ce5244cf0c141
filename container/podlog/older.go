package podlog

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// olderFile is a rotated file of the log.
type olderFile struct {
	f       *os.File
	info    os.FileInfo
	stamp   string
	packed  bool
	skip    int64 // number of lines that are skipped
	damaged bool  // true if the file cannot be decompressed
}

// older returns the files of the log whose names contain a rotation time after the given one,
// oldest first. It skips the current file, files that have such names but are not logs, and files
// that a rotation is removing. The returned files are open. If older cannot list the files, it
// sends a warning.
func (s *stream) older(after string) []*olderFile {
	out, err := s.listOlder(after)
	if err != nil {
		closeAll(out)
		s.warn(fmt.Errorf("podrun skips the rotated files of this log: %w", err))
		return nil
	}
	return out
}

func (s *stream) listOlder(after string) (out []*olderFile, err error) {
	dir, err := openDir(s.path)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	current, err := s.f.Stat()
	if err != nil {
		return nil, err
	}
	files, err := dir.rotated(filepath.Base(s.path))
	if err != nil {
		return nil, err
	}
	used := inUse(files)
	for _, r := range files {
		if !used[r.name] || r.stamp <= after {
			continue
		}
		f, info, err := dir.open(r.name)
		if errors.Is(err, fs.ErrNotExist) && r.suffix == "" {
			// A rotation has compressed the file since it was listed.
			r.suffix = compressSuffix
			f, info, err = dir.open(r.name + compressSuffix)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotOnlyFile):
		case err != nil:
			return out, err
		case os.SameFile(info, current):
			// f is the current file, which was rotated after it was opened.
			f.Close()
		default:
			out = append(out, &olderFile{f: f, info: info, stamp: r.stamp, packed: r.suffix == compressSuffix})
		}
	}
	return out, nil
}

func closeAll(files []*olderFile) {
	for _, o := range files {
		// An error is ignored: the file was only read, so no data can be lost.
		o.f.Close()
	}
}

// readOlder writes the requested part of the rotated files. Without Tail, these are all lines; with Tail, these are
// as many of the last lines as are missing from the current file. The argument have is the number of lines in the
// current file. A line that a rotation has split counts twice.
func (s *stream) readOlder(ctx context.Context, have int64) error {
	files := s.older("")
	defer closeAll(files)
	if n := len(files); n > 0 {
		s.newest = files[n-1].stamp
	}
	first := 0
	if s.opts.Tail != nil {
		left := *s.opts.Tail - have
		for first = len(files); first > 0 && left > 0; first-- {
			n, err := files[first-1].seekTail(ctx, left)
			if err := s.orDamaged(ctx, files[first-1], err); err != nil {
				return err
			}
			left -= n
		}
	}
	return s.readAll(ctx, files[first:])
}

// readBetween writes the files that were created after mine and before the current file, which
// exist if the log was rotated several times. mine has already been read to its end.
func (s *stream) readBetween(ctx context.Context, mine os.FileInfo) error {
	files := s.older(s.newest)
	defer closeAll(files)
	if len(files) == 0 {
		return nil
	}
	s.newest = files[len(files)-1].stamp
	if files[0].packed || os.SameFile(files[0].info, mine) {
		// The first file is mine itself.
		return s.readAll(ctx, files[1:])
	}
	return s.readAll(ctx, files)
}

func (s *stream) readAll(ctx context.Context, files []*olderFile) error {
	for _, o := range files {
		if o.damaged {
			continue
		}
		if err := s.orDamaged(ctx, o, s.readOne(ctx, o)); err != nil {
			return err
		}
	}
	return nil
}

// orDamaged prints a warning about a damaged compressed file and returns nil, so that podrun still reads the other
// files. It returns any other error.
func (s *stream) orDamaged(ctx context.Context, o *olderFile, err error) error {
	o.damaged = o.packed && (errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(flate.CorruptInputError)))
	if err == nil || ctx.Err() != nil || !o.damaged {
		return err
	}
	s.warn(fmt.Errorf("decompress %s: %w", filepath.Join(filepath.Dir(s.path), filepath.Base(o.f.Name())), err))
	return nil
}

// warn reports a problem that does not prevent podrun from reading the rest of the log.
func (s *stream) warn(err error) {
	if s.src.Warn != nil {
		s.src.Warn(s.wrap(err))
	}
}

// readOne writes one rotated file, up to the size that the file had when it was opened.
func (s *stream) readOne(ctx context.Context, o *olderFile) error {
	r, err := o.reader(ctx)
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(r, 64<<10)
	if err := skipLines(lines, o.skip); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := lines.Read(buf)
		if err := s.split.feed(buf[:n], s.piece); err != nil {
			return err
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(s.endFile(), err)
		}
	}
}

// reader returns a reader of the content from the file's current position.
func (o *olderFile) reader(ctx context.Context) (io.Reader, error) {
	r := untilDone{ctx, o.f}
	if !o.packed {
		return r, nil
	}
	packed, err := gzip.NewReader(r)
	if errors.Is(err, io.EOF) {
		// The file is empty.
		err = io.ErrUnexpectedEOF
	}
	return packed, err
}

// seekTail positions the file at its last n lines, and returns how many of these lines the file
// contains. It reads a compressed file completely, in order to count the lines.
func (o *olderFile) seekTail(ctx context.Context, n int64) (have int64, err error) {
	if !o.packed {
		at, have, err := tailOffset(o.f, o.info.Size(), n)
		if err == nil {
			_, err = o.f.Seek(at, io.SeekStart)
		}
		return have, err
	}
	r, err := o.reader(ctx)
	if err != nil {
		return 0, err
	}
	total, err := countLines(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return 0, err
	}
	o.skip = max(0, total-n)
	_, err = o.f.Seek(0, io.SeekStart)
	return min(total, n), err
}

// countLines counts the lines of a log. A line that the runtime split into records counts once.
func countLines(r *bufio.Reader) (n int64, err error) {
	open := false
	for {
		head, size, err := nextHead(r)
		if size > 0 {
			open = partialHead(head)
			if !open {
				n++
			}
		}
		if errors.Is(err, io.EOF) {
			if open {
				n++
			}
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// skipLines skips the first n lines of a log.
func skipLines(r *bufio.Reader, n int64) error {
	for n > 0 {
		head, _, err := nextHead(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !partialHead(head) {
			n--
		}
	}
	return nil
}

// nextHead skips a record of a log, and returns the head of the record.
func nextHead(r *bufio.Reader) (head []byte, size int, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if size == 0 {
			head = append(head, part[:min(len(part), headLen)]...)
		}
		size += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return head, size, err
		}
	}
}

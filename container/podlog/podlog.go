// Package podlog reads the logs of containers, which the runtime writes in the CRI format
// (one "time stream tag content" per line), and prints them as kubectl logs does: Stream
// for one container, Mux for several.
//
// It does not use k8s.io/cri-client/pkg/logs, which queries the runtime at each end of
// file, ends up to a second after the container, stops at a first line that is not in CRI
// format, interleaves parts of long lines with other lines, and opens the new file of a
// rotated log before it has read the old one to its end.
package podlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
)

// Options select the part of a log and its format. They are those of kubectl logs; the
// zero value selects the current content of the log.
type Options struct {
	// Follow continues until the container has ended and everything is read.
	Follow bool
	// Tail is how many lines to show, counted from the end; nil is all.
	Tail *int64
	// Since leaves out the lines before that time; zero is none.
	Since time.Time
	// Timestamps puts the time before each line.
	Timestamps bool
	// LimitBytes ends the output after so many bytes, timestamps included; nil
	// is no limit.
	LimitBytes *int64
}

// Source is the log of one attempt of one container.
type Source struct {
	// Container names the container in messages.
	Container string
	// Path is the log's file; it may be a symbolic link to it.
	Path string
	// State describes the container's state, for the message that it has no log: "waiting
	// (ImagePullBackOff)". It may be empty.
	State string
	// Prefix is put before each line by Mux: "[pod/web/app] ".
	Prefix string

	// Exited is closed when the container has ended, and Alive reports whether
	// it still runs, asked when there is nothing to read and at most four
	// times a second. Either ends a Follow; without both, only the context
	// does.
	Exited <-chan struct{}
	Alive  func(context.Context) (bool, error)
	// Last is closed when nothing more will be written to the log of a
	// container that has ended: containerd reports the end up to some
	// milliseconds before it has written the last line. Where it is nil, that
	// the container has ended is enough.
	Last <-chan struct{}

	// Warn receives problems of the log that do not end the reading; nil drops them.
	Warn func(error)
}

// Output is where a log goes. A writer that is nil drops its stream; both may
// be the same. Each Write gets whole lines, but for the last line of a log that
// has no end of line, one that LimitBytes cut, and lines over 1 MiB, which come
// in pieces.
type Output struct {
	Stdout, Stderr io.Writer
}

// Stream writes the log of a container, from the oldest of its rotated files on,
// compressed or not. The kubelet reads the current file only, so that `kubectl logs`
// shows next to nothing after a rotation. It returns nil when all is written, and an
// error that wraps the context's cause when that ended it, or fs.ErrNotExist when
// there is no log.
func Stream(ctx context.Context, src Source, out Output, opts Options) error {
	s := &stream{src: src, opts: opts, w: newLineWriter(out, opts), last: src.Last == nil}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.close()
	have, err := s.seekTail()
	if err != nil {
		return s.wrap(err)
	}
	if err = s.readOlder(ctx, have); err == nil {
		err = s.read(ctx)
	}
	if errors.Is(err, errLimit) {
		err = nil
	}
	// What was read is written, whatever ended the reading.
	return s.wrap(errors.Join(err, s.w.flush()))
}

// stream is a log that is being read.
type stream struct {
	src  Source
	opts Options
	w    *lineWriter

	f       *os.File
	path    string // where f was found, with no link in it
	offset  int64  // of f, how much was read
	newest  string // the time in the name of the newest file that was rotated away before f
	buf     []byte
	split   splitter
	corrupt bool      // a corrupt line was reported
	settled bool      // f was rotated away, and read to its end since
	asked   time.Time // when Alive was asked last
	over    bool      // the container is known to have ended
	last    bool      // and all of its log is written
	lingers time.Time // until when more of it is waited for
}

func (s *stream) close() {
	if s.f != nil {
		s.f.Close() // it was only read: nothing can be lost
	}
}

// wrap names the container in an error.
func (s *stream) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("container %s: log: %w", s.src.Container, err)
}

func (s *stream) read(ctx context.Context) error {
	if !s.opts.Follow {
		return s.once(ctx)
	}
	changed, look, stop := watch(s.path)
	defer stop()
	return s.follow(ctx, changed, look)
}

// once writes the current content of the log, even if it grows faster than it can be
// read.
func (s *stream) once(ctx context.Context) error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if err := s.drain(ctx, info.Size()); err != nil {
		return err
	}
	return s.finish()
}

// drain reads up to the end of the file, or to an offset in it if that is not
// negative.
func (s *stream) drain(ctx context.Context, end int64) error {
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	for ctx.Err() == nil {
		want := s.buf
		if end >= 0 {
			want = s.buf[:max(0, min(int64(len(s.buf)), end-s.offset))]
		}
		if len(want) == 0 {
			return nil
		}
		n, err := s.f.Read(want)
		s.offset += int64(n)
		if err := s.split.feed(want[:n], s.piece); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// finish processes the rest at the end of the log: a line without a newline.
func (s *stream) finish() error {
	if err := s.split.finish(false, s.piece); err != nil {
		return err
	}
	return s.w.finish()
}

// piece takes a line of the file, or a piece of a long one, and reports the
// first that is not in the CRI format. Its content stays out of the message: a
// log's file can be made a link to a file that the reader must not see.
func (s *stream) piece(p piece) error {
	if p.err == nil {
		return s.w.take(p.record)
	}
	if !s.corrupt && s.src.Warn != nil {
		s.src.Warn(s.wrap(fmt.Errorf("%s holds a line that is not in the CRI format; such lines are left out: %w", s.path, p.err)))
	}
	s.corrupt = true
	return nil
}

// openLog opens a log's file. Anything but a regular file is refused: opening a
// pipe would hang, a device never ends, and a symlink may lead to a file that the reader
// must not see. Runtimes write logs at the path that they report.
func openLog(path string) (*os.File, error) {
	return hostfile.OpenNoFollow(path)
}

// missing is the error that a container has no log, with the reason.
func (s *stream) missing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return s.wrap(err)
	}
	why := "it was never started, or its log was removed"
	if s.src.State != "" {
		why = "it is " + s.src.State
	}
	return fmt.Errorf("container %s has no log, %s: %w", s.src.Container, why, err)
}

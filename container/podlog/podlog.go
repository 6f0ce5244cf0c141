// Package podlog reads the logs of containers and prints them as kubectl logs does. The runtime
// writes them in the CRI format (one "time stream tag content" per line). Stream prints the log of
// one container, and Mux those of several.
//
// Package podlog does not use k8s.io/cri-client/pkg/logs. That package calls the runtime at each
// end of file, and ends up to a second after the container has exited. It stops at the first line
// that is not in the CRI format, and mixes parts of long lines with other lines. It opens the new
// file of a rotated log before it has read the old one to its end.
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
	"github.com/podrun/podrun/internal/wait"
)

// Options selects a part of a log and its format, as the flags of kubectl logs do. The zero
// value selects the current content of the log.
type Options struct {
	// Follow continues until the container has exited and its whole log has been read.
	Follow bool
	// Tail is the number of lines to show, counted from the end. nil means all lines.
	Tail *int64
	// Since omits lines from before that time. The zero time omits none.
	Since time.Time
	// Timestamps adds the time before each line.
	Timestamps bool
	// LimitBytes is the maximum size of the output, including timestamps; nil means no
	// limit.
	LimitBytes *int64
}

// Source is the log of one attempt of one container.
type Source struct {
	// Container names the container in messages.
	Container string
	// Path is the log file, or a symbolic link to it.
	Path string
	// State describes the container's state, such as "waiting (ImagePullBackOff)". If the container
	// has no log, the error message contains State. It may be empty.
	State string
	// Prefix is the text that Mux writes before each line: "[pod/web/app] ". Errors and warnings also
	// begin with it.
	Prefix string

	// Exited is closed when the container has exited. Alive reports whether the container is still
	// running. Stream calls Alive when there is nothing to read, at most four times a second. With
	// Follow, the exit of the container ends the stream. If both fields are nil, only the end of
	// the context ends it.
	Exited <-chan struct{}
	Alive  func(context.Context) (bool, error)
	// Last is closed when the runtime will no longer write to the log of a container that has
	// exited. It is necessary because containerd reports the exit up to some milliseconds before it
	// has written the last line. If Last is nil, the log counts as complete writtenWithin after the exit.
	Last <-chan struct{}
	// FinishedAt is the time at which the container exited; zero if it is running or unknown. Without Follow,
	// Stream begins to read the log when the log counts as complete.
	FinishedAt time.Time

	// Rotate, if it is not nil, rotates the log (Rotator.RotateAll). With Follow, Stream calls it when
	// it has read RotateSize bytes of the current file, and not again before it has switched to the
	// next file: a rotation cannot overtake Stream, whatever the speed of the output.
	Rotate     func(context.Context) error
	RotateSize int64 // in bytes; greater than 0

	// Missing returns the error to report instead of the given one if the log does not exist. It may be
	// nil.
	Missing func(context.Context, error) error

	// Warn receives problems of the log that do not prevent podrun from reading the rest. If Warn
	// is nil, podrun ignores them.
	Warn func(error)
}

// Output is the destination of a log. A nil writer discards its stream. Both writers may be the
// same. Each call of Write receives whole lines, with three exceptions: a last line without a
// newline, a line that LimitBytes truncates, and lines of more than 1 MiB, which are written in
// parts.
type Output struct {
	Stdout, Stderr io.Writer
}

// writtenWithin is the time within which the runtime writes the last line of a container that has exited.
// On a host that is not overloaded, containerd takes some milliseconds.
const writtenWithin = 500 * time.Millisecond

// unwritten returns the time after which the log of a container that has exited counts as complete if Last is nil.
// It is not positive if the log is complete.
func (s Source) unwritten() time.Duration {
	if s.FinishedAt.IsZero() {
		return writtenWithin
	}
	// The time may be in the future if the clock was set back.
	return min(time.Until(s.FinishedAt.Add(writtenWithin)), writtenWithin)
}

// Stream writes the log of a container. It begins with the oldest of the rotated files, whether
// it is compressed or not. (The kubelet reads only the current file, so `kubectl logs` shows
// almost nothing after a rotation.) Stream returns nil when it has written everything. If the
// context ends, it returns an error that wraps the context's cause. If there is no log, it
// returns fs.ErrNotExist.
func Stream(ctx context.Context, src Source, out Output, opts Options) error {
	s := &stream{src: src, opts: opts, w: newLineWriter(out, opts), rotateAt: src.RotateSize}
	if !opts.Follow && !src.FinishedAt.IsZero() {
		if err := wait.Sleep(ctx, src.unwritten()); err != nil {
			return s.wrap(err)
		}
	}
	if err := s.open(ctx); err != nil {
		if src.Missing != nil && errors.Is(err, fs.ErrNotExist) {
			return src.Missing(ctx, err)
		}
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
	// The lines that were read are written, regardless of why the reading ended.
	return s.wrap(errors.Join(err, s.w.flush()))
}

// stream is a log that podrun is reading.
type stream struct {
	src  Source
	opts Options
	w    *lineWriter

	f      *os.File
	path   string // path of f, with symlinks resolved
	offset int64  // number of bytes of f that have been read
	// the time in the name of the newest file that was rotated before f
	newest string
	buf    []byte
	split  splitter
	// true if a corrupt line has been reported
	corrupt bool
	// number of bytes of f after which Stream rotates the log
	rotateAt int64
	// true if Stream has rotated f
	moved bool
	// true if f was rotated, and has been read to its end since then
	settled bool
	asked   time.Time // time of the last call to Alive
	// true if the container is known to have exited
	over bool
	last bool // true if the log of that container is complete
	held bool // true if only a process that has it open for writing may write more
	// time at which podrun stops waiting for more of the log
	lingers time.Time
}

func (s *stream) close() {
	if s.f != nil {
		// An error is ignored: the file was only read, so no data can be lost.
		s.f.Close()
	}
}

// wrap adds the container's name to an error.
func (s *stream) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%scontainer %s: log: %w", s.src.Prefix, s.src.Container, err)
}

func (s *stream) read(ctx context.Context) error {
	if !s.opts.Follow {
		return s.once(ctx)
	}
	changed, look, stop := watch(s.path)
	defer stop()
	return s.follow(ctx, changed, look)
}

// once writes the current content of the log. It ends even if the log grows faster than podrun
// can read it.
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

// drain reads to the end of the file. If end is not negative, it reads only to that offset.
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
		s.rotate(ctx)
	}
	return context.Cause(ctx)
}

// finish processes an incomplete line at the end of the log.
func (s *stream) finish() error {
	if err := s.split.finish(false, s.piece); err != nil {
		return err
	}
	return s.w.finish()
}

// piece processes a line of the file, or a part of a long one. It warns about the first line that
// is not in the CRI format. The warning does not quote the line, because a log file can be replaced
// by a link to a file that the reader must not see.
func (s *stream) piece(p piece) error {
	if p.err == nil {
		return s.w.take(p.record)
	}
	if !s.corrupt && s.src.Warn != nil {
		s.src.Warn(s.wrap(fmt.Errorf("%s contains a line that is not in the CRI format; such lines are skipped: %w", s.path, p.err)))
	}
	s.corrupt = true
	return nil
}

// openLog opens a log file. It accepts only regular files. Opening a pipe would hang, a device
// never ends, and a symlink may lead to a file that the reader must not see. Refusing symlinks
// does no harm, because runtimes report the path of the file itself.
func openLog(path string) (*os.File, error) {
	return hostfile.OpenNoFollow(path)
}

// missing returns the error for a container without a log, with the reason.
func (s *stream) missing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return s.wrap(err)
	}
	why := "it was never started, or its log was removed"
	if s.src.State != "" {
		why = "it is " + s.src.State
	}
	return fmt.Errorf("%scontainer %s has no log, %s: %w", s.src.Prefix, s.src.Container, why, err)
}

package podlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lookWatched and lookUnwatched are the intervals at which podrun checks a log, with and without
// notifications of changes. askAlive is the interval of calls to Alive. settle is how long podrun
// continues to read a rotated file, because the runtime may write buffered data to it after it has
// created the new file. linger is how long podrun continues to read the log of an exited container if Source.Last
// is set but not closed. longestWrite is how long podrun waits after that for a process that has the log open for writing.
const (
	lookWatched   = time.Second
	lookUnwatched = 50 * time.Millisecond
	askAlive      = 250 * time.Millisecond
	settle        = 50 * time.Millisecond
	linger        = time.Second
	longestWrite  = 10 * time.Second
)

// open opens the log. If the log is followed, open waits for it, because it may not exist yet, or may be
// missing for a moment during a rotation. While the container is running, the runtime can still create it.
func (s *stream) open(ctx context.Context) error {
	for ended := false; ; {
		f, err := openLog(s.src.Path)
		if err == nil {
			s.f = f
			if s.path, err = filepath.EvalSymlinks(s.src.Path); err != nil {
				// The log has just been renamed, and the runtime will create it again.
				s.path = s.src.Path
			}
			return nil
		}
		wait := s.opts.Follow && (s.src.Alive != nil || s.src.Exited != nil)
		if !wait || ended || !errors.Is(err, fs.ErrNotExist) {
			return s.missing(err)
		}
		if ended, err = s.ended(ctx); err != nil {
			return s.wrap(err)
		}
		if ended {
			// The log may have been created just before the container exited.
			continue
		}
		if err := s.pause(ctx, nil, lookUnwatched); err != nil {
			return s.wrap(err)
		}
	}
}

// follow writes the log as it grows, across rotations, until the container has exited and the whole
// log has been written. It checks the log after each notification on changed, and at least at the
// interval look.
func (s *stream) follow(ctx context.Context, changed <-chan struct{}, look time.Duration) error {
	if s.src.Alive != nil {
		look = min(look, askAlive)
	}
	for {
		// follow must check for the end before it reads, because the last read could otherwise miss
		// data that was written before the end.
		ended, err := s.ended(ctx)
		if err != nil {
			return err
		}
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		again, err := s.rotated(ctx)
		switch {
		case err != nil:
			return err
		case again:
			continue
		case ended && s.last:
			return s.finish()
		case ended:
			if err := s.awaitLast(ctx, changed); err != nil {
				return err
			}
			continue
		}
		if err := s.pause(ctx, changed, look); err != nil {
			return err
		}
	}
}

// awaitLast waits, after the container has exited, until its log changes or is complete: Source.Last is closed, or the time
// for the last line has passed, and no process has the log open for writing. On a host that is overloaded, the runtime
// writes the last line later than that.
func (s *stream) awaitLast(ctx context.Context, changed <-chan struct{}) error {
	if s.lingers.IsZero() {
		left := linger
		if s.src.Last == nil {
			left = s.src.unwritten()
		}
		s.lingers = time.Now().Add(left)
	}
	last, left := s.src.Last, time.Until(s.lingers)
	if s.held {
		last, left = nil, lookUnwatched
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
		return nil
	case <-last:
	case <-timer.C:
	}
	s.held = s.hasWriter() && time.Since(s.lingers) < longestWrite
	s.last = !s.held
	return nil
}

// hasWriter reports whether a process has the log open for writing: the kernel then refuses a read lease (fcntl(2),
// F_SETLEASE). It returns false if the file system has no leases.
func (s *stream) hasWriter() bool {
	if s.f == nil {
		return false
	}
	if _, err := unix.FcntlInt(s.f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err == unix.EAGAIN
	}
	_, _ = unix.FcntlInt(s.f.Fd(), unix.F_SETLEASE, unix.F_UNLCK) // closing the file also releases the lease
	return false
}

// catchUp reads to the end of the file and writes the data.
func (s *stream) catchUp(ctx context.Context) error {
	if err := s.drain(ctx, -1); err != nil {
		return err
	}
	return s.w.flush()
}

// ended reports whether the container is known to have exited. It limits the rate of calls to
// Alive.
func (s *stream) ended(ctx context.Context) (bool, error) {
	select {
	case <-s.src.Exited:
		s.over = true
	default:
	}
	if s.over || s.src.Alive == nil || time.Since(s.asked) < askAlive {
		return s.over, nil
	}
	alive, err := s.src.Alive(ctx)
	s.asked = time.Now()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("check whether the container is running: %w", err)
	}
	s.over = !alive
	return s.over, nil
}

// pause waits until the log changes, the container exits, or the limit is reached.
func (s *stream) pause(ctx context.Context, changed <-chan struct{}, limit time.Duration) error {
	exited := s.src.Exited
	select {
	case <-exited:
		// The exit is already known, so it must not end the pause.
		exited = nil
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-exited:
	case <-timer.C:
	}
	return nil
}

// rotate rotates the log if RotateSize bytes of the current file have been read. After a failure, it
// sends a warning, and tries again when it has read as much again.
func (s *stream) rotate(ctx context.Context) {
	if s.src.Rotate == nil || !s.opts.Follow || s.moved || s.offset < s.rotateAt {
		return
	}
	s.rotateAt = s.offset + s.src.RotateSize
	if err := s.src.Rotate(ctx); err != nil {
		s.warn(err)
		return
	}
	s.moved = true
}

// rotated switches to the new file if the log was rotated or truncated. It reports whether the
// stream has more data to read. Before it switches, it reads the old file once more to its end,
// after a pause.
func (s *stream) rotated(ctx context.Context) (bool, error) {
	mine, err := s.f.Stat()
	if err != nil {
		return false, err
	}
	if mine.Size() < s.offset {
		s.split, s.offset = splitter{}, 0
		_, err := s.f.Seek(0, io.SeekStart)
		return true, err
	}
	next, err := s.successor(mine)
	if err != nil || next == nil {
		return false, err
	}
	if !s.settled {
		next.Close()
		s.settled = true
		return true, s.pause(ctx, nil, settle)
	}
	return true, s.switchTo(ctx, next, mine)
}

// successor opens the file that has replaced the current file at the log's path. It returns nil if the file is still
// the current one, or if the runtime has not created the new one yet.
func (s *stream) successor(mine os.FileInfo) (*os.File, error) {
	there, err := os.Stat(s.path)
	if err == nil && !os.SameFile(mine, there) {
		var f *os.File
		if f, err = openLog(s.path); err == nil {
			return f, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, err
}

// switchTo switches to the current file. Before that, it reads the files that were rotated
// since mine. A line that the runtime split into records may continue in the next file. A
// record never does.
func (s *stream) switchTo(ctx context.Context, current *os.File, mine os.FileInfo) error {
	s.f.Close()
	s.f, s.offset, s.settled = current, 0, false
	s.moved, s.rotateAt = false, s.src.RotateSize
	if err := s.endFile(); err != nil {
		return err
	}
	return s.readBetween(ctx, mine)
}

// endFile processes the incomplete end of a file that another file follows.
func (s *stream) endFile() error {
	err := s.split.finish(true, s.piece)
	s.split = splitter{}
	return err
}

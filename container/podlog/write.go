package podlog

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// timeFormat is the format of kubectl logs --timestamps.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// maxBatch is the number of bytes of output that are collected before they are written. A line that
// is longer than maxLine is written in parts.
const (
	maxBatch = 64 << 10
	maxLine  = 1 << 20
)

// errLimit reports that LimitBytes bytes have been written.
var errLimit = errors.New("byte limit")

// writeError is a failure to write the output. (A failure to read the log is a different
// error.)
type writeError struct{ err error }

func (e *writeError) Error() string { return fmt.Sprintf("write: %v", e.err) }
func (e *writeError) Unwrap() error { return e.err }

// lineWriter joins records into lines, and writes the requested lines in batches.
type lineWriter struct {
	opts   Options
	out    [2]io.Writer
	lines  [2]line
	batch  []byte
	to     int // the stream whose lines are in batch
	remain int64
}

// line is an incomplete line of one stream.
type line struct {
	open bool
	skip bool
	buf  []byte
}

func newLineWriter(out Output, opts Options) *lineWriter {
	w := &lineWriter{opts: opts, remain: math.MaxInt64}
	w.out[stdout], w.out[stderr] = out.Stdout, out.Stderr
	if opts.LimitBytes != nil {
		w.remain = *opts.LimitBytes
	}
	return w
}

// take adds a record to the line of its stream. The time of a line is the time of its first record.
func (w *lineWriter) take(r record) error {
	l := &w.lines[r.stream]
	if !l.open {
		l.open = true
		l.skip = r.at.Before(w.opts.Since) || w.out[r.stream] == nil
		if w.opts.Timestamps && !l.skip {
			l.buf = append(r.at.AppendFormat(l.buf, timeFormat), ' ')
		}
	}
	if !l.skip {
		l.buf = append(l.buf, r.content...)
	}
	if !r.partial {
		l.open = false
		if !l.skip {
			l.buf = append(l.buf, '\n')
		}
	} else if len(l.buf) < maxLine {
		return nil
	}
	return w.commit(r.stream)
}

// commit moves a line, or a part of a line, to the batch.
func (w *lineWriter) commit(stream int) error {
	l := &w.lines[stream]
	if len(l.buf) == 0 {
		return nil
	}
	if w.to != stream {
		// Both streams may go to the same terminal, so their order must be preserved.
		if err := w.flush(); err != nil {
			return err
		}
		w.to = stream
	}
	cut := l.buf[:min(int64(len(l.buf)), w.remain)]
	w.batch = append(w.batch, cut...)
	w.remain -= int64(len(cut))
	l.buf = l.buf[:0]
	if w.remain == 0 {
		return errLimit
	}
	if len(w.batch) >= maxBatch {
		return w.flush()
	}
	return nil
}

// finish moves incomplete lines to the batch.
func (w *lineWriter) finish() error {
	for stream := range w.lines {
		if err := w.commit(stream); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the buffered lines to their output.
func (w *lineWriter) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	_, err := w.out[w.to].Write(w.batch)
	w.batch = w.batch[:0]
	if err != nil {
		return &writeError{err}
	}
	return nil
}

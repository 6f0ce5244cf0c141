package podlog

import (
	"bytes"
	"io"
)

// seekTail seeks to the beginning of the last n lines, and returns the number of lines from there
// to the end.
func (s *stream) seekTail() (have int64, err error) {
	if s.opts.Tail == nil {
		return 0, nil
	}
	info, err := s.f.Stat()
	if err != nil {
		return 0, err
	}
	if s.offset, have, err = tailOffset(s.f, info.Size(), *s.opts.Tail); err != nil {
		return 0, err
	}
	_, err = s.f.Seek(s.offset, io.SeekStart)
	return have, err
}

// tailBlock is the number of bytes that are read at a time. headLen is more than the maximum length of the time, the
// stream and the tag together.
const (
	tailBlock = 64 << 10
	headLen   = 128
)

// tailOffset returns the offset of the last n lines in a log of the given size, and the number of
// these lines that the log contains. It reads only these lines and the record before them. A line
// that the runtime split into records counts once. If lines of both streams were split at the same
// time, the beginning of the first line may be missing.
func tailOffset(f io.ReaderAt, size, n int64) (at, have int64, err error) {
	if n <= 0 {
		return size, 0, nil
	}
	t := tailCount{want: n, start: size}
	buf := make([]byte, tailBlock+headLen)
	// The newline at the end of the file does not begin a new line.
	for end := size - 1; end > 0; {
		begin := max(0, end-tailBlock)
		// The read includes the bytes after the block, because they may belong to the head of a
		// line that begins at the end of the block.
		have, err := f.ReadAt(buf[:min(end+headLen, size)-begin], begin)
		if err != nil && err != io.EOF {
			return 0, 0, err
		}
		block := buf[:min(int64(have), end-begin)]
		for i := bytes.LastIndexByte(block, '\n'); i >= 0; i = bytes.LastIndexByte(block[:i], '\n') {
			if t.line(begin+int64(i)+1, buf[i+1:have]) {
				return t.start, t.have, nil
			}
		}
		end = begin
	}
	head := make([]byte, min(headLen, size))
	if _, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return 0, 0, err
	}
	if size > 0 && t.line(0, head) {
		return t.start, t.have, nil
	}
	return 0, t.have, nil
}

// tailCount counts lines from the end of a log.
type tailCount struct {
	want, have int64
	start      int64 // offset of the last counted record
}

// line counts the record at an offset, and reports whether the count now exceeds the requested number of lines. A
// record tagged P belongs to the line that was counted before it, unless it is the last record of the log.
func (t *tailCount) line(at int64, data []byte) bool {
	if !partialHead(data) || t.have == 0 {
		if t.have == t.want {
			return true
		}
		t.have++
	}
	t.start = at
	return false
}

// partialHead reports whether the record with this head is tagged P.
func partialHead(data []byte) bool {
	data = data[:min(len(data), headLen)]
	if n := bytes.IndexByte(data, '\n'); n >= 0 {
		data = data[:n]
	}
	_, rest, _ := bytes.Cut(data, space)
	_, rest, _ = bytes.Cut(rest, space)
	tags, _, _ := bytes.Cut(rest, space)
	return isPartial(tags)
}

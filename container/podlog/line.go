package podlog

import (
	"bytes"
	"errors"
	"time"
)

// The two streams of a container.
const (
	stdout = 0
	stderr = 1
)

// record is a line of a log file. It contains a line of a container's output, or a part of one.
type record struct {
	at     time.Time
	stream int // stdout or stderr
	// the line continues in the next record of the stream
	partial bool
	content []byte
}

// Reasons why a line is not in the CRI format.
var (
	errNoTime   = errors.New("it does not begin with a timestamp")
	errNoStream = errors.New("it names neither stdout nor stderr")
	errNoTag    = errors.New("it has no tag")
)

// parse parses a line of the CRI log format, without its newline:
//
//	2016-10-06T00:17:09.669794202Z stdout F content
//
// The tag is F for a full line, or P if the line continues in a further record because the runtime
// split it. Further tags may follow, separated by colons (KEP-2411, cri-api's LogTag).
func parse(line []byte) (record, error) {
	var r record
	stamp, rest, _ := bytes.Cut(line, space)
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return r, errNoTime
	}
	name, rest, _ := bytes.Cut(rest, space)
	switch string(name) {
	case "stdout":
		r.stream = stdout
	case "stderr":
		r.stream = stderr
	default:
		return r, errNoStream
	}
	tags, content, ok := bytes.Cut(rest, space)
	if !ok {
		return r, errNoTag
	}
	r.at, r.partial, r.content = at, isPartial(tags), content
	return r, nil
}

func isPartial(tags []byte) bool {
	tag, _, _ := bytes.Cut(tags, colon)
	return string(tag) == "P"
}

var (
	space = []byte{' '}
	colon = []byte{':'}
)

// maxCarry is the maximum size of an incomplete line that a splitter keeps. Runtimes split
// lines at 16 KiB, unless they are configured not to.
const maxCarry = 64 << 10

// piece is a line or, if record.partial is true, a part of a line.
type piece struct {
	record
	err error // why the line is not a valid record
}

// splitter splits a file's content into lines. It keeps an incomplete line for the next call.
type splitter struct {
	carry []byte
	// true if carry continues a line whose beginning has already been passed on
	within bool
	head   piece // the beginning of that line
}

// feed processes bytes of the file, and passes on the lines that end within these bytes.
func (s *splitter) feed(data []byte, give func(piece) error) error {
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		if n < 0 {
			s.carry = append(s.carry, data...)
			if len(s.carry) < maxCarry {
				return nil
			}
			return s.give(s.carry, false, give)
		}
		line := data[:n]
		if len(s.carry) > 0 {
			s.carry = append(s.carry, line...)
			line = s.carry
		}
		if err := s.give(line, true, give); err != nil {
			return err
		}
		data = data[n+1:]
	}
	return nil
}

// finish passes on an incomplete line. If whole is true, finish passes it on as a complete line.
func (s *splitter) finish(whole bool, give func(piece) error) error {
	if len(s.carry) == 0 && !s.within {
		return nil
	}
	return s.give(s.carry, whole, give)
}

func (s *splitter) give(line []byte, whole bool, give func(piece) error) error {
	p := s.head
	reported := s.within && p.err != nil
	if s.within {
		p.content = line
	} else {
		p.record, p.err = parse(line)
	}
	s.head, s.within = p, !whole
	s.carry = s.carry[:0]
	if reported {
		// The carried bytes are the rest of a corrupt line.
		return nil
	}
	if !whole {
		p.partial = true
	}
	return give(p)
}

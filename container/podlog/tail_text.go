package podlog

import (
	"bytes"
	"context"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// lastBytes is the number of bytes that Tail reads from the end of a log. It is several times
// the 16 KiB at which runtimes split lines.
const lastBytes = 64 << 10

// Tail returns the end of a log, with both streams. The result contains at most the given numbers
// of lines and bytes, and begins at a UTF-8 character. Tail reads at most the last 64 KiB of the
// log, regardless of the size of the log and its lines. It omits records that are not in the CRI
// format, or that do not begin in that part.
func Tail(ctx context.Context, path string, lines, limit int) (string, error) {
	data, err := hostfile.ReadTail(ctx, path, lastBytes)
	if err != nil {
		return "", err
	}
	if len(data) == lastBytes {
		// The data begins with the end of a record whose beginning was not read, so this part is
		// dropped.
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	var text bytes.Buffer
	w := newLineWriter(Output{Stdout: &text, Stderr: &text}, Options{})
	take := func(p piece) error {
		if p.err != nil {
			return nil
		}
		return w.take(p.record)
	}
	var split splitter
	for _, step := range []func() error{
		func() error { return split.feed(data, take) },
		func() error { return split.finish(false, take) },
		w.finish, w.flush,
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return lastOf(text.String(), lines, limit), nil
}

// lastOf returns at most limit bytes from the end of the last lines of a text.
func lastOf(text string, lines, limit int) string {
	begin := len(strings.TrimSuffix(text, "\n"))
	for range lines {
		if begin = strings.LastIndexByte(text[:max(begin, 0)], '\n'); begin < 0 {
			break
		}
	}
	text = text[begin+1:]
	if lines <= 0 {
		text = ""
	}
	if cut := len(text) - limit; cut > 0 {
		text = strings.ToValidUTF8(text[cut:], "")
	}
	return text
}

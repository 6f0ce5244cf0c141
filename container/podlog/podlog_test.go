package podlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/test/patience"
)

// stamp returns the time of the nth line of a test's log.
func stamp(n int) string {
	return time.Date(2026, 1, 2, 3, 4, n, 5000, time.UTC).Format(time.RFC3339Nano)
}

// entry returns the nth record of a test's log; rest is "stdout F text".
func entry(n int, rest string) string { return stamp(n) + " " + rest + "\n" }

// writeLog creates a log whose records are numbered from 0.
func writeLog(t *testing.T, records ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	var b strings.Builder
	for i, r := range records {
		b.WriteString(entry(i, r))
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func count(n int64) *int64 { return &n }

func TestStream(t *testing.T) {
	lines := []string{"stdout F one", "stderr F two", "stdout F ", "stdout F  four  "}
	long := []string{"stdout F one", "stdout P aa", "stderr P xx", "stdout P bb", "stderr F yy", "stdout F cc", "stdout P tail"}
	at := func(n int) string { return time.Date(2026, 1, 2, 3, 4, n, 5000, time.UTC).Format(timeFormat) + " " }
	tests := []struct {
		name    string
		records []string
		opts    Options
		want    string
	}{
		{"empty", nil, Options{}, ""},
		{"all", lines, Options{}, "one\ntwo\n\n four  \n"},
		{"tags", []string{"stdout P:x a", "stdout F:x:y b"}, Options{}, "ab\n"},
		{"timestamps", lines, Options{Timestamps: true}, at(0) + "one\n" + at(1) + "two\n" + at(2) + "\n" + at(3) + " four  \n"},
		{"partial lines are joined, each stream's own", long, Options{}, "one\nxxyy\naabbcc\ntail"},
		{"a joined line has one time", long, Options{Timestamps: true}, at(0) + "one\n" + at(2) + "xxyy\n" + at(1) + "aabbcc\n" + at(6) + "tail"},
		{"tail 0", lines, Options{Tail: count(0)}, ""},
		{"tail 2", lines, Options{Tail: count(2)}, "\n four  \n"},
		{"tail more than there is", lines, Options{Tail: count(9)}, "one\ntwo\n\n four  \n"},
		{"tail of an empty log", nil, Options{Tail: count(2)}, ""},
		{"tail counts a joined line once", []string{"stdout F one", "stdout P a", "stdout P b", "stdout F c", "stdout F last"}, Options{Tail: count(2)}, "abc\nlast\n"},
		{"tail counts a line that goes on", long, Options{Tail: count(1)}, "tail"},
		{"since", lines, Options{Since: time.Date(2026, 1, 2, 3, 4, 2, 5000, time.UTC)}, "\n four  \n"},
		{"since, of a joined line, is its first record's", long, Options{Since: time.Date(2026, 1, 2, 3, 4, 2, 0, time.UTC)}, "xxyy\ntail"},
		{"limit", lines, Options{LimitBytes: count(5)}, "one\nt"},
		{"limit 0", lines, Options{LimitBytes: count(0)}, ""},
		{"limit not reached", lines, Options{LimitBytes: count(500)}, "one\ntwo\n\n four  \n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			src := Source{Container: "app", Path: writeLog(t, tt.records...), Warn: func(err error) { t.Error("warning:", err) }}
			if err := Stream(t.Context(), src, Output{&b, &b}, tt.opts); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStreamSplits(t *testing.T) {
	path := writeLog(t, "stdout F one", "stderr F two", "stdout F three")
	var out, errOut bytes.Buffer
	if err := Stream(t.Context(), Source{Path: path}, Output{&out, &errOut}, Options{}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "one\nthree\n" || errOut.String() != "two\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errOut.String())
	}
	out.Reset()
	if err := Stream(t.Context(), Source{Path: path}, Output{Stdout: &out}, Options{LimitBytes: count(5)}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "one\nt" {
		t.Errorf("stdout alone = %q: the limit applies only to written bytes", out.String())
	}
}

func TestStreamReportsCorruptLinesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	data := "root:x:0:0:secret\n" + entry(0, "stdout F one") + "\n" + stamp(0) + " stdin F a\n" + stamp(0) + " stdout F\n" +
		strings.Repeat("x", 3*maxCarry) + "\n" + entry(1, "stdout F two") + entry(2, "stdout F cut")
	data = strings.TrimSuffix(data, "\n")
	if err := os.WriteFile(path, []byte(data), 0o640); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var warnings []error
	src := Source{Container: "app", Path: path, Prefix: "[pod/web/app] ", Warn: func(err error) { warnings = append(warnings, err) }}
	if err := Stream(t.Context(), src, Output{Stdout: &b}, Options{}); err != nil {
		t.Fatal(err)
	}
	if b.String() != "one\ntwo\ncut" {
		t.Errorf("output %q", b.String())
	}
	if len(warnings) != 1 || !errors.Is(warnings[0], errNoTime) {
		t.Fatalf("warnings = %v, want one of the first corrupt line", warnings)
	}
	if text := warnings[0].Error(); !strings.HasPrefix(text, "[pod/web/app] container app") || !strings.Contains(text, path) || strings.Contains(text, "secret") {
		t.Errorf("warning %q must name the container and the file, and not contain the file's content", text)
	}
}

func TestStreamLongLines(t *testing.T) {
	// No newline may be added or lost, regardless of the length of a line and of whether the
	// runtime splits it into records.
	text := strings.Repeat("0123456789abcde\t", 5*maxLine/32)
	var records strings.Builder
	for i := 0; i < len(text); i += 16 << 10 {
		records.WriteString(entry(0, "stdout P "+text[i:min(len(text), i+16<<10)]))
	}
	for name, log := range map[string]string{
		"records":    records.String() + entry(1, "stdout F ") + entry(2, "stdout F end"),
		"one record": entry(0, "stdout F "+text) + entry(2, "stdout F end"),
	} {
		path := filepath.Join(t.TempDir(), "0.log")
		if err := os.WriteFile(path, []byte(log), 0o640); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Stream(t.Context(), Source{Path: path}, Output{Stdout: &b}, Options{}); err != nil {
			t.Fatal(err)
		}
		if b.String() != text+"\nend\n" {
			t.Errorf("%s: %d bytes, want %d and the end", name, b.Len(), len(text)+5)
		}
	}
}

// countingLog simulates a log of any size with lines of 64 bytes. It counts the bytes that a
// reader reads.
type countingLog struct {
	size int64
	read int64
}

func (c *countingLog) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for ; n < len(p) && off+int64(n) < c.size; n++ {
		line := fmt.Sprintf("2026-01-02T03:04:05Z stdout F %033d\n", (off+int64(n))/64)
		n += copy(p[n:], line[(off+int64(n))%64:]) - 1
	}
	c.read += int64(n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func TestTailReadsFromTheEnd(t *testing.T) {
	const size = 1 << 30
	for _, n := range []int64{1, 10, 1023, 1024, 1025, 5000} {
		f := &countingLog{size: size}
		got, have, err := tailOffset(f, size, n)
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(size) - 64*n; got != want || have != n {
			t.Errorf("the last %d lines begin at %d, want %d", n, got, want)
		}
		if limit := 64*n + 2*tailBlock; f.read > limit {
			t.Errorf("the last %d lines: read %d bytes, want at most %d", n, f.read, limit)
		}
	}
	// These sizes include an empty log, small logs, and all sizes around the boundary of a block.
	for lines := int64(0); lines < 1100; lines++ {
		got, have, err := tailOffset(&countingLog{size: lines * 64}, lines*64, 1000)
		if want := max(0, lines-1000) * 64; err != nil || got != want || have != min(lines, 1000) {
			t.Fatalf("the last 1000 of %d lines begin at %d, %v; want %d", lines, got, err, want)
		}
	}
}

func TestTailOfGigabyteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 30); err != nil { // the file is sparse
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("\n"+entry(0, "stdout F not wanted")+entry(1, "stdout F a")+entry(2, "stdout F b")), 1<<30); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	// Reading the whole file takes a second, so sixty such reads would exceed the limit.
	ctx, cancel := patience.Context(t.Context(), 20)
	defer cancel()
	for range 60 {
		b.Reset()
		if err := Stream(ctx, Source{Path: path}, Output{Stdout: &b}, Options{Tail: count(2)}); err != nil || b.String() != "a\nb\n" {
			t.Fatalf("output %q, error %v", b.String(), err)
		}
	}
}

func TestStreamMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "0.log")
	tests := []struct {
		src  Source
		opts Options
		want string
	}{
		{Source{}, Options{}, "container app has no log, it was never started, or its log was removed: open " + path + ": no such file or directory"},
		{Source{State: "waiting (ImagePullBackOff)"}, Options{}, "container app has no log, it is waiting (ImagePullBackOff): open " + path + ": no such file or directory"},
		{Source{State: "waiting (ImagePullBackOff)"}, Options{Follow: true}, "container app has no log, it is waiting (ImagePullBackOff): open " + path + ": no such file or directory"},
		{Source{Exited: closed()}, Options{Follow: true}, "container app has no log, it was never started, or its log was removed: open " + path + ": no such file or directory"},
	}
	for _, tt := range tests {
		tt.src.Container, tt.src.Path, tt.src.Prefix = "app", path, "[pod/web/app] " // of --prefix
		err := Stream(t.Context(), tt.src, Output{Stdout: io.Discard}, tt.opts)
		if !errors.Is(err, fs.ErrNotExist) || err.Error() != "[pod/web/app] "+tt.want {
			t.Errorf("error = %v, want %s", err, tt.want)
		}
	}
}

func closed() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

func TestStreamLinks(t *testing.T) {
	dir := t.TempDir()
	good := writeLog(t, "stdout F one")
	link := func(name, target string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link("b", "a")
	tests := []struct{ name, path, want string }{
		{"link to a log", link("link", good), "is not a regular file"},
		{"loop", link("a", "b"), "is not a regular file"},
		{"directory", dir, "is not a regular file"},
		{"fifo", fifo, "is not a regular file"},
		{"link to a fifo", link("to-fifo", fifo), "is not a regular file"},
		{"device", "/dev/zero", "is not a regular file"},
	}
	for _, tt := range tests {
		for _, follow := range []bool{false, true} {
			var b bytes.Buffer
			src := Source{Container: "app", Path: tt.path, Exited: closed()}
			err := Stream(t.Context(), src, Output{Stdout: &b}, Options{Follow: follow})
			if b.Len() > 0 {
				t.Errorf("%s: output %q", tt.name, b.String())
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "container app") {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
			}
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestStreamWriteError(t *testing.T) {
	path := writeLog(t, "stdout F one", "stderr F two")
	err := Stream(t.Context(), Source{Container: "app", Path: path}, Output{brokenPipe{}, brokenPipe{}}, Options{})
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error = %v, want a broken pipe", err)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		line string
		want record
		err  error
	}{
		{line: "2016-10-06T00:17:09.669794202Z stdout F log content", want: record{at: time.Date(2016, 10, 6, 0, 17, 9, 669794202, time.UTC), content: []byte("log content")}},
		{line: "2016-10-06T00:17:09Z stderr P:x ", want: record{at: time.Date(2016, 10, 6, 0, 17, 9, 0, time.UTC), stream: stderr, partial: true, content: []byte{}}},
		{line: "", err: errNoTime},
		{line: "now stdout F x", err: errNoTime},
		{line: "2016-10-06T00:17:09Z", err: errNoStream},
		{line: "2016-10-06T00:17:09Z stdin F x", err: errNoStream},
		{line: "2016-10-06T00:17:09Z stdout", err: errNoTag},
		{line: "2016-10-06T00:17:09Z stdout F", err: errNoTag},
	}
	for _, tt := range tests {
		got, err := parse([]byte(tt.line))
		if !errors.Is(err, tt.err) {
			t.Errorf("%q: error %v, want %v", tt.line, err, tt.err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(record{})); err == nil && diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.line, diff)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte(entry(0, "stdout P a")+entry(1, "stdout F b")), 3)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		// The output must not depend on how the file's bytes are divided among reads.
		whole := splitAt(t, data, 0)
		if at = max(0, min(at, len(data))); splitAt(t, data, at) != whole {
			t.Errorf("cut at %d: %q, want %q", at, splitAt(t, data, at), whole)
		}
	})
}

func splitAt(t *testing.T, data []byte, at int) string {
	t.Helper()
	var b bytes.Buffer
	s := &stream{w: newLineWriter(Output{&b, &b}, Options{})}
	for _, part := range [][]byte{data[:at], data[at:]} {
		if err := s.split.feed(part, s.piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.finish(), s.w.flush()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

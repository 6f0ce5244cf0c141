package podlog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// rotatedLog creates a log of three files with 4, 3 and 2 lines. The oldest file is compressed.
func rotatedLog(t *testing.T) string {
	t.Helper()
	part := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			b.WriteString(entry(i, fmt.Sprintf("stdout F %d", i)))
		}
		return b.String()
	}
	return rotateDir(t, map[string]string{
		"0.log.20260101-000000.gz": part(0, 4), "0.log.20260102-000000": part(4, 7), "0.log": part(7, 9),
		"0.log.20260102-000000.tmp": "half", "1.log": "another",
	})
}

func TestStreamRotated(t *testing.T) {
	limit := int64(5)
	lines := func(from, to int) (out string) {
		for i := from; i < to; i++ {
			out += fmt.Sprintf("%d\n", i)
		}
		return out
	}
	tests := []struct {
		name string
		opts Options
		want string
	}{
		{"all", Options{}, lines(0, 9)},
		{"since", Options{Since: time.Date(2026, 1, 2, 3, 4, 3, 0, time.UTC)}, lines(3, 9)},
		{"bytes", Options{LimitBytes: &limit}, "0\n1\n2"},
		{"tail of the current file", Options{Tail: count(2)}, lines(7, 9)},
		{"tail in the file before", Options{Tail: count(4)}, lines(5, 9)},
		{"tail is two files", Options{Tail: count(5)}, lines(4, 9)},
		{"tail in the compressed file", Options{Tail: count(6)}, lines(3, 9)},
		{"tail is more than there is", Options{Tail: count(100)}, lines(0, 9)},
		{"no line", Options{Tail: count(0)}, ""},
	}
	log := rotatedLog(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Stream(t.Context(), Source{Path: log}, Output{Stdout: &b}, tt.opts); err != nil || b.String() != tt.want {
				t.Errorf("output %q, error %v; want %q", b.String(), err, tt.want)
			}
		})
	}
}

// TestStreamRotatedWithinALine covers a line that the runtime split into records, and that
// continues in the next file.
func TestStreamRotatedWithinALine(t *testing.T) {
	for _, suffix := range []string{"", ".gz"} {
		log := rotateDir(t, map[string]string{
			"0.log.20260101-000000" + suffix: entry(0, "stdout F a") + entry(1, "stdout P b"), "0.log": entry(2, "stdout F c"),
		})
		for n, want := range map[int64]string{1: "c\n", 2: "bc\n", 3: "a\nbc\n"} {
			var b bytes.Buffer
			if err := Stream(t.Context(), Source{Path: log}, Output{Stdout: &b}, Options{Tail: count(n)}); err != nil || b.String() != want {
				t.Errorf("%q, last %d lines: %q, error %v; want %q", suffix, n, b.String(), err, want)
			}
		}
	}
}

// TestStreamRotatedFollowsNothing checks that podrun does not read links that were placed next to a
// log. If a file is damaged, podrun must still read the others.
func TestStreamRotatedFollowsNothing(t *testing.T) {
	log := rotatedLog(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(entry(0, "stdout F secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(secret, log+".20260101-000001"), os.Link(secret, log+".20260101-000002"), os.Mkdir(log+".20260101-000003", 0o700),
		os.WriteFile(log+".20260101-000004.gz", []byte("damaged"), 0o600), os.WriteFile(log+".20260101-000005.gz", nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, opts := range []Options{{}, {Tail: count(9)}} {
		var b bytes.Buffer
		var warned []string
		src := Source{Path: log, Warn: func(err error) { warned = append(warned, err.Error()) }}
		if err := Stream(t.Context(), src, Output{Stdout: &b}, opts); err != nil || b.String() != "0\n1\n2\n3\n4\n5\n6\n7\n8\n" {
			t.Errorf("output %q, error %v", b.String(), err)
		}
		if len(warned) == 0 || !strings.Contains(warned[0], "20260101-00000") {
			t.Errorf("warnings: %q", warned)
		}
	}
}

// TestFollowRotator follows a log while it is rotated.
func TestFollowRotator(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	old := l.path + ".20200101-000000"
	if err := os.WriteFile(old, []byte(entry(0, "stdout F -")), 0o640); err != nil {
		t.Fatal(err)
	}
	wait := start(t.Context(), Source{Path: l.path, Exited: exited}, Output{out, out}, Options{})
	want := "-\n"
	out.await(t, want)
	r := Rotator{MaxFiles: 3}
	for i := range 4 {
		l.line(fmt.Sprintf("stdout F %d", i))
		want += fmt.Sprintf("%d\n", i)
		if err := r.Rotate(t.Context(), l.path, func(context.Context) error { l.reopen(); return nil }); err != nil {
			t.Fatal(err)
		}
		out.await(t, want)
	}
	l.end()
	close(exited)
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestFollowRotates checks that a stream that rotates its log loses no line, however slowly its output
// is read, and that a log whose output is read remains small.
func TestFollowRotates(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	const size = 1000
	rotator := &Rotator{MaxSize: size, MaxFiles: 2}
	var mu sync.Mutex // protects l and rotations
	rotations := 0
	entered, block := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(entered); <-block })
	slow := writerFunc(func(p []byte) (int, error) { first(); return out.Write(p) })
	src := Source{Path: l.path, Exited: exited, RotateSize: size, Rotate: func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		rotations++
		return rotator.RotateAll(ctx, []Running{{ID: "c", Path: l.path}}, func(context.Context, string) error { l.reopen(); return nil })
	}}
	want := ""
	write := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		for range n {
			want += fmt.Sprintf("%d\n", l.n)
			l.line(fmt.Sprintf("stdout F %d", l.n))
		}
	}
	write(1000)
	wait := start(t.Context(), src, Output{Stdout: slow}, Options{})
	<-entered
	write(1000)
	mu.Lock()
	if rotations > 1 {
		t.Errorf("%d rotations while the output was blocked, want at most 1", rotations)
	}
	mu.Unlock()
	close(block)
	out.await(t, want)
	mu.Lock()
	before := rotations
	mu.Unlock()
	for range 4 {
		write(100) // several times the size
		out.await(t, want)
	}
	mu.Lock()
	if files := readDir(t, l.path); len(files) > 2 || rotations < before+2 {
		t.Errorf("%d files after %d rotations, want at most 2 files and a rotation for each %d bytes", len(files), rotations, size)
	}
	mu.Unlock()
	l.end()
	close(exited)
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// writerFunc is a function that implements io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

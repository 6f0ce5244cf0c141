package podlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podrun/podrun/test/patience"
)

// screen is an output; a test can wait for its content.
type screen struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// await waits until the output equals want.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	ctx, cancel := patience.Context(t.Context(), patience.OnFake)
	defer cancel()
	for s.text() != want {
		select {
		case <-s.changed:
		case <-ctx.Done():
			t.Fatalf("screen shows %q, want %q: %v", s.text(), want, context.Cause(ctx))
		}
	}
}

// logFile is a log written by a test's runtime.
type logFile struct {
	t    *testing.T
	path string
	f    *os.File
	n    int
}

func newLogFile(t *testing.T) *logFile {
	l := &logFile{t: t, path: filepath.Join(t.TempDir(), "0.log")}
	l.reopen()
	t.Cleanup(func() { l.f.Close() })
	return l
}

// reopen reopens the log, as a runtime does for ReopenContainerLog.
func (l *logFile) reopen() {
	l.t.Helper()
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		l.t.Fatal(err)
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f = f
}

// end closes the log, as a runtime does when it has written the last line.
func (l *logFile) end() { l.f.Close() }

func (l *logFile) raw(text string) {
	l.t.Helper()
	if _, err := l.f.WriteString(text); err != nil {
		l.t.Fatal(err)
	}
}

func (l *logFile) line(rest string) {
	l.t.Helper()
	l.raw(entry(l.n, rest))
	l.n++
}

func (l *logFile) rename() {
	l.t.Helper()
	if err := os.Rename(l.path, l.path+".20260102-030405"); err != nil {
		l.t.Fatal(err)
	}
}

// start follows a log in the background. The function stop waits until this ends.
func start(ctx context.Context, src Source, out Output, opts Options) (stop func() error) {
	opts.Follow = true
	done := make(chan error, 1)
	go func() { done <- Stream(ctx, src, out, opts) }()
	return func() error { return <-done }
}

func TestFollow(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	l.line("stdout F before")
	l.line("stdout F last")
	wait := start(t.Context(), Source{Path: l.path, Exited: exited}, Output{out, out}, Options{Tail: count(1)})
	out.await(t, "last\n")
	l.line("stdout F one")
	out.await(t, "last\none\n")
	l.line("stdout P tw")
	l.raw(stamp(9) + " stdo")
	l.raw("ut F o\n")
	out.await(t, "last\none\ntwo\n")
	l.line("stdout P end")
	l.end()
	close(exited)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "last\none\ntwo\nend")
}

// TestFollowReadsLastLine covers containerd 1.6, which reports that a container has exited
// before it writes the container's last line.
func TestFollowReadsLastLine(t *testing.T) {
	l, out, exited, last := newLogFile(t), newScreen(), make(chan struct{}), make(chan struct{})
	close(exited)
	wait := start(t.Context(), Source{Path: l.path, Exited: exited, Last: last}, Output{out, out}, Options{})
	l.line("stdout F late")
	out.await(t, "late\n") // this line is written before Last is closed
	close(last)
	l.line("stdout F later")
	out.await(t, "late\nlater\n") // the runtime still has the log open
	l.line("stdout F last")
	l.end()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "late\nlater\nlast\n")
}

// TestFollowLingersNoLonger covers a container that restarts for days, and must not leave a reader
// behind for each log.
func TestFollowLingersNoLonger(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	l.line("stdout F one")
	l.end()
	close(exited)
	wait := start(t.Context(), Source{Path: l.path, Exited: exited, Last: make(chan struct{})}, Output{out, out}, Options{})
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "one\n")
}

func TestFollowEndsWithContainer(t *testing.T) {
	l, out := newLogFile(t), newScreen()
	l.line("stdout F one")
	var running atomic.Bool
	running.Store(true)
	src := Source{Path: l.path, Alive: func(context.Context) (bool, error) { return running.Load(), nil }}
	wait := start(t.Context(), src, Output{out, out}, Options{})
	out.await(t, "one\n")
	l.line("stdout F two")
	l.end()
	running.Store(false)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "one\ntwo\n")
}

func TestFollowAliveFails(t *testing.T) {
	l, gone := newLogFile(t), errors.New("no such container")
	src := Source{Container: "app", Path: l.path, Alive: func(context.Context) (bool, error) { return false, gone }}
	err := start(t.Context(), src, Output{Stdout: io.Discard}, Options{})()
	if !errors.Is(err, gone) || !strings.Contains(err.Error(), "container app") {
		t.Errorf("error = %v", err)
	}
}

// TestFollowRotation rotates a log as the kubelet does: it renames the log, and then makes the
// runtime reopen it (containerd/containerd#3351, k/k#59898).
func TestFollowRotation(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	l.line("stdout F first")
	wait := start(t.Context(), Source{Path: l.path, Exited: exited}, Output{out, out}, Options{})
	var want strings.Builder
	want.WriteString("first\n")
	out.await(t, want.String())
	for i := range 5 {
		l.line(fmt.Sprint("stdout F a", i))
		l.rename()
		// The runtime still writes to the old file.
		l.line(fmt.Sprint("stdout F b", i))
		l.reopen()
		l.line(fmt.Sprint("stdout F c", i))
		fmt.Fprintf(&want, "a%d\nb%d\nc%d\n", i, i, i)
		out.await(t, want.String())
	}
	l.end()
	close(exited)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	out.await(t, want.String())
}

// TestFollowReadsOldFileOnce covers the time during which the runtime may write to both the old and the new
// file.
func TestFollowReadsOldFileOnce(t *testing.T) {
	l, out := newLogFile(t), newScreen()
	l.line("stdout F one")
	s := &stream{src: Source{Path: l.path}, w: newLineWriter(Output{out, out}, Options{})}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	step := func(wantAgain bool, want string) {
		t.Helper()
		if err := s.catchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := s.rotated(t.Context())
		if err != nil || again != wantAgain || out.text() != want {
			t.Fatalf("again %v, error %v, screen %q; want %v, %q", again, err, out.text(), wantAgain, want)
		}
	}
	step(false, "one\n")
	old, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	l.rename()
	// The new file does not exist yet.
	step(false, "one\n")
	l.reopen()
	l.line("stdout F new")
	// The rotation was detected, but the old file must first be read once more.
	step(true, "one\n")
	fmt.Fprint(old, entry(7, "stdout F late"), stamp(8), " stdout F cut")
	step(true, "one\nlate\n")
	step(false, "one\nlate\ncut\nnew\n")
}

func TestFollowTruncated(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	wait := start(t.Context(), Source{Path: l.path, Exited: exited}, Output{out, out}, Options{})
	l.line("stdout F a long line before")
	out.await(t, "a long line before\n")
	if err := l.f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	l.line("stdout F after")
	out.await(t, "a long line before\nafter\n")
	l.end()
	close(exited)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
}

func TestFollowWithoutWatch(t *testing.T) {
	l, out, exited := newLogFile(t), newScreen(), make(chan struct{})
	s := &stream{src: Source{Path: l.path, Exited: exited}, w: newLineWriter(Output{out, out}, Options{}), last: true}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	done := make(chan error, 1)
	go func() { done <- s.follow(t.Context(), nil, lookUnwatched) }()
	l.line("stdout F one")
	out.await(t, "one\n")
	l.rename()
	l.reopen()
	l.line("stdout F two")
	out.await(t, "one\ntwo\n")
	close(exited)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWatchOfMissingDirectory(t *testing.T) {
	changed, look, stop := watch(filepath.Join(t.TempDir(), "none", "0.log"))
	defer stop()
	if changed != nil || look != lookUnwatched {
		t.Errorf("look = %s, want a short interval", look)
	}
}

// TestFollowBeforeLog follows a container whose log is created later.
func TestFollowBeforeLog(t *testing.T) {
	dir, out, exited := t.TempDir(), newScreen(), make(chan struct{})
	path := filepath.Join(dir, "app", "0.log")
	wait := start(t.Context(), Source{Path: path, Exited: exited}, Output{out, out}, Options{})
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(entry(0, "stdout F one")), 0o640); err != nil {
		t.Fatal(err)
	}
	out.await(t, "one\n")
	close(exited)
	if err := wait(); err != nil {
		t.Fatal(err)
	}

	alive := func(context.Context) (bool, error) { return false, nil }
	err := start(t.Context(), Source{Path: filepath.Join(dir, "x"), Alive: alive}, Output{out, out}, Options{})()
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v, want an error that the log does not exist", err)
	}
}

func TestFollowCanceled(t *testing.T) {
	l, out := newLogFile(t), newScreen()
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	wait := start(ctx, Source{Container: "app", Path: l.path}, Output{out, out}, Options{})
	l.line("stdout F one")
	out.await(t, "one\n")
	cancel(why)
	if err := wait(); !errors.Is(err, why) {
		t.Errorf("error = %v, want %v", err, why)
	}
	if err := Stream(ctx, Source{Path: l.path}, Output{out, out}, Options{}); !errors.Is(err, why) {
		t.Errorf("error = %v, want %v", err, why)
	}
}

func TestMux(t *testing.T) {
	a := writeLog(t, "stdout F one", "stderr F two", "stdout P tail")
	b := writeLog(t, "stdout F three")
	var out, errOut bytes.Buffer
	err := Mux(t.Context(), Output{&out, &errOut}, []Source{
		{Container: "a", Prefix: "[pod/web/a] ", Path: a},
		{Container: "x", Prefix: "[pod/web/x] ", Path: filepath.Join(t.TempDir(), "none"), State: "waiting (ErrImagePull)"},
		{Container: "b", Prefix: "[pod/web/b] ", Path: b},
	}, Options{})
	if want := "[pod/web/a] one\n[pod/web/a] tail\n[pod/web/b] three\n"; out.String() != want {
		t.Errorf("stdout %q, want %q", out.String(), want)
	}
	if want := "[pod/web/a] two\n"; errOut.String() != want {
		t.Errorf("stderr %q, want %q", errOut.String(), want)
	}
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "container x has no log, it is waiting (ErrImagePull)") {
		t.Errorf("error = %v, want an error that x has no log", err)
	}
}

// TestMuxFollowsWholeLines covers two containers that write concurrently, while the runtime splits
// their lines.
func TestMuxFollowsWholeLines(t *testing.T) {
	const lines = 300
	out, exited := newScreen(), make(chan struct{})
	var sources []Source
	var writers sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		l := newLogFile(t)
		sources = append(sources, Source{Container: name, Prefix: "[" + name + "] ", Path: l.path, Exited: exited})
		writers.Go(func() {
			for i := range lines {
				l.line("stdout P " + strings.Repeat(name, 100))
				l.line(fmt.Sprint("stdout F ", i))
			}
			l.end()
		})
	}
	go func() {
		writers.Wait()
		close(exited)
	}()
	if err := Mux(t.Context(), Output{out, out}, sources, Options{Follow: true}); err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for line := range strings.Lines(out.text()) {
		name := line[1:2]
		if want := fmt.Sprintf("[%s] %s%d\n", name, strings.Repeat(name, 100), next[name]); line != want {
			t.Fatalf("line %q, want %q", line, want)
		}
		next[name]++
	}
	if next["a"] != lines || next["b"] != lines {
		t.Errorf("lines = %v, want %d of each", next, lines)
	}
}

func TestMuxEnds(t *testing.T) {
	l := newLogFile(t)
	l.line("stdout F one")
	quiet := newLogFile(t)
	sources := []Source{{Container: "a", Path: l.path}, {Container: "b", Path: quiet.path}}
	// When the reader of the output exits, Mux must return without waiting for the quiet log.
	for _, follow := range []bool{false, true} {
		if err := Mux(t.Context(), Output{Stdout: brokenPipe{}}, sources, Options{Follow: follow}); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("follow %v: error = %v, want a broken pipe", follow, err)
		}
	}
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := newScreen()
	done := make(chan error, 1)
	go func() { done <- Mux(ctx, Output{Stdout: out}, sources, Options{Follow: true}) }()
	out.await(t, "one\n")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("error = %v, want %v", err, why)
	}
}

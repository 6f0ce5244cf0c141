package hostfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// deadline returns a context that ends a read that hangs, so that the test fails instead of
// blocking.
func deadline(t *testing.T) context.Context {
	ctx, cancel := patience.Context(t.Context(), patience.OnFake)
	t.Cleanup(cancel)
	return ctx
}

// tree creates a directory with files of every type and returns its path.
func tree(t *testing.T) string {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("outside"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "ten"), []byte("0123456789"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	must(t, os.Symlink("ten", filepath.Join(dir, "link")))
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	must(t, os.Symlink(outside, filepath.Join(dir, "absolute")))
	must(t, os.Symlink("../../../../../../../../.."+outside, filepath.Join(dir, "dotdot")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Symlink("/proc/self/fd/0", filepath.Join(dir, "magic")))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadTakesBoundedRegularFilesOnly(t *testing.T) {
	dir := tree(t)
	for _, tc := range []struct {
		path  string
		limit int64
		want  string
		err   error
	}{
		{path: "ten", limit: 10, want: "0123456789"},
		{path: "ten", limit: 9, err: ErrTooLarge},
		{path: "ten", limit: 0, err: ErrTooLarge},
		{path: "empty", limit: 0},
		{path: "link", limit: 10, want: "0123456789"},
		{path: "dir", limit: 10, err: ErrNotRegular},
		{path: "fifo", limit: 10, err: ErrNotRegular},
		{path: "socket", limit: 10, err: unix.ENXIO},
		{path: "zero", limit: 10, err: ErrNotRegular},
		{path: "loop", limit: 10, err: unix.ELOOP},
		{path: "none", limit: 10, err: fs.ErrNotExist},
	} {
		data, err := Read(deadline(t), filepath.Join(dir, tc.path), tc.limit)
		if string(data) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s of at most %d bytes: %q, %v; want %q, %v", tc.path, tc.limit, data, err, tc.want, tc.err)
		}
		if err != nil && !strings.Contains(err.Error(), tc.path) {
			t.Errorf("%v does not name %s", err, tc.path)
		}
	}
}

func TestReadTakesFilesOfTheKernelWhoseSizeIsZero(t *testing.T) {
	data, err := Read(deadline(t), "/proc/self/mountinfo", 16<<20)
	if err != nil || !strings.Contains(string(data), " / ") {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if _, err := Read(deadline(t), "/proc/self/mountinfo", 16); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

func TestReadGrowsItsBufferToTheWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	text := strings.Repeat("0123456789abcdef", 3<<16)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	data, err := Read(deadline(t), path, int64(len(text)))
	if err != nil || string(data) != text {
		t.Errorf("%d bytes, %v; want %d", len(data), err, len(text))
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if _, err := Read(ctx, "/proc/self/mountinfo", 16<<20); !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's cause and its error", err)
	}
	// The test now reads from a file system that does not respond.
	ctx, cancel = context.WithCancelCause(t.Context())
	hang := make(chan struct{})
	defer close(hang)
	time.AfterFunc(time.Millisecond, func() { cancel(why) })
	_, err := within(ctx, "/nfs/file", func() ([]byte, error) { <-hang; return nil, nil })
	if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "/nfs/file") {
		t.Errorf("%v, want the context's cause and the path", err)
	}
}

func TestReadNoFollowRefusesALink(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]error{"ten": nil, "link": ErrNotRegular, "loop": ErrNotRegular, "fifo": ErrNotRegular, "none": fs.ErrNotExist} {
		if _, err := ReadNoFollow(deadline(t), filepath.Join(dir, path), 100); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestReadBelowDoesNotLeaveItsRoot(t *testing.T) {
	ring.RequireRoot(t)
	dir := tree(t)
	must(t, unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	for _, tc := range []struct {
		path, want string
		err        error
	}{
		{path: "ten", want: "0123456789"},
		{path: "/ten", want: "0123456789"},
		{path: "../../../ten", want: "0123456789"},
		{path: "link", want: "0123456789"},
		{path: "absolute", err: fs.ErrNotExist},
		{path: "dotdot", err: fs.ErrNotExist},
		{path: "zero", err: fs.ErrNotExist},
		{path: "fifo", err: ErrNotRegular},
		{path: "device", err: ErrNotRegular},
		{path: "loop", err: unix.ELOOP},
	} {
		data, err := ReadBelow(deadline(t), dir, tc.path, 100)
		if string(data) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tc.path, data, err, tc.want, tc.err)
		}
	}
	if _, err := ReadBelow(deadline(t), "/", filepath.Join(dir, "magic"), 100); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a magic link: %v, want ELOOP", err)
	}
	if _, err := ReadBelow(deadline(t), "/proc/self/root", filepath.Join(dir, "ten"), 100); err != nil {
		t.Errorf("a root that is a magic link: %v", err)
	}
}

func TestReadTailReadsTheEnd(t *testing.T) {
	dir := tree(t)
	for _, tc := range []struct {
		path string
		n    int64
		want string
		err  error
	}{
		{path: "ten", n: 3, want: "789"},
		{path: "ten", n: 10, want: "0123456789"},
		{path: "ten", n: 1 << 40, want: "0123456789"},
		{path: "empty", n: 3},
		{path: "link", n: 3, want: "789"},
		{path: "fifo", n: 3, err: ErrNotRegular},
	} {
		data, err := ReadTail(deadline(t), filepath.Join(dir, tc.path), tc.n)
		if string(data) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tc.path, data, err, tc.want, tc.err)
		}
	}
}

func TestReadInputTakesAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	_, err = w.WriteString("0123456789")
	must(t, err)
	must(t, w.Close())
	data, err := ReadInput(deadline(t), fmt.Sprintf("/proc/self/fd/%d", r.Fd()), 10)
	if err != nil || string(data) != "0123456789" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := ReadInput(deadline(t), "/dev/zero", 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	// Canceling ctx stops the read of a FIFO that has no writer.
	fifo := filepath.Join(tree(t), "fifo")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := ReadInput(ctx, fifo, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	// This ends the read that continues in the background.
	end, err := os.OpenFile(fifo, os.O_RDWR, 0)
	must(t, err)
	must(t, end.Close())
}

func TestReadTailNoFollowRefusesALink(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]error{"ten": nil, "link": ErrNotRegular} {
		if _, err := ReadTailNoFollow(deadline(t), filepath.Join(dir, path), 3); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestReadHeadReadsTheBeginning(t *testing.T) {
	dir := tree(t)
	for _, tc := range []struct {
		path string
		n    int64
		want string
		err  error
	}{
		{path: "ten", n: 3, want: "012"},
		{path: "ten", n: 1 << 40, want: "0123456789"},
		{path: "empty", n: 3},
		{path: "link", n: 3, want: "012"},
		{path: "fifo", n: 3, err: ErrNotRegular},
	} {
		data, err := ReadHead(deadline(t), filepath.Join(dir, tc.path), tc.n)
		if string(data) != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tc.path, data, err, tc.want, tc.err)
		}
	}
}

func TestOpenRefusesWhatIsNoRegularFile(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]error{"ten": nil, "fifo": ErrNotRegular, "zero": ErrNotRegular, "dir": ErrNotRegular, "none": fs.ErrNotExist} {
		f, err := Open(filepath.Join(dir, path))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if f != nil {
			f.Close()
		}
	}
}

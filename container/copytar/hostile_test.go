package copytar

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// mustReturn calls a function, and fails the test if the call hangs.
func mustReturn(t *testing.T, what string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	return patience.Receive(t, what+" returns", done)
}

// swapAgainAndAgain repeatedly swaps two files until stop is called. The function stop fails the
// test if a swap failed.
func swapAgainAndAgain(t *testing.T, one, other string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	swapping := make(chan error)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
		}
		swapping <- err
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-swapping; err != nil {
			t.Fatal(err)
		}
	}
}

// swapping returns how long a test swaps files. A second has found each mistake that was tried, such as opening
// the file by its name again.
func swapping() time.Duration {
	if ring.Is(2) {
		return 3 * time.Second
	}
	return time.Second
}

// TestS4PackSwapped covers a user who owns a directory, and swaps its files and directories while
// root copies it. Pack must not include files from outside the directory, and must not wait for a
// FIFO.
func TestS4PackSwapped(t *testing.T) {
	const secret = "s3cret of root"
	for name, swap := range map[string]func(at func(string) string) error{
		"a file for a symlink":      func(at func(string) string) error { return os.Symlink(at("outside/secret"), at("swapped")) },
		"a file for a FIFO":         func(at func(string) string) error { return syscall.Mkfifo(at("swapped"), 0o666) },
		"a directory for a symlink": func(at func(string) string) error { return os.Symlink(at("outside"), at("swapped")) },
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			at := func(name string) string { return filepath.Join(base, name) }
			victim := at("d/e")
			err := errors.Join(os.Mkdir(at("d"), 0o755), os.Mkdir(at("outside"), 0o700), os.WriteFile(at("outside/secret"), []byte(secret), 0o600), swap(at))
			if strings.HasPrefix(name, "a file") {
				err = errors.Join(err, os.WriteFile(victim, []byte("public"), 0o644))
			} else {
				err = errors.Join(err, os.Mkdir(victim, 0o755), os.WriteFile(victim+"/secret", []byte("public"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			stop := swapAgainAndAgain(t, at("swapped"), victim)
			copied := 0
			const enough = 10
			limit, cancel := patience.Context(t.Context(), patience.OnFake)
			defer cancel()
			for begun := time.Now(); (time.Since(begun) < swapping() || copied < enough) && limit.Err() == nil; {
				var out bytes.Buffer
				err := mustReturn(t, "Pack", func() error { return Pack(t.Context(), &out, at("d"), "./d", func(string) {}) })
				if strings.Contains(out.String(), secret) {
					t.Fatal("the secret is in the archive")
				}
				if err == nil {
					copied++
				}
			}
			stop()
			t.Logf("%d copies", copied)
			if copied < enough {
				t.Errorf("only %d copies", copied)
			}
		})
	}
}

// TestPackDeep checks that Pack returns an error for a tree that is deeper than any realistic one.
func TestPackDeep(t *testing.T) {
	base := t.TempDir()
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(strings.Repeat("d/", maxDepth+10), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Pack(t.Context(), &out, base, "./d", func(string) {}); !errors.Is(err, errDeep) {
		t.Errorf("%.300v", err)
	}
}

// sparse returns an archive with only one entry, which is a hole of size bytes. It is in PAX
// format 0.0, 0.1 or 1.0, or in the format of old GNU tars.
func sparse(t testing.TB, format string, size int64) []byte {
	t.Helper()
	header := func(name string, typeflag byte, size int64) []byte {
		b := make([]byte, 512)
		copy(b, name)
		copy(b[100:], "0000644\x00")
		copy(b[124:], fmt.Sprintf("%011o\x00", size))
		copy(b[136:], "00000000000\x00")
		b[156] = typeflag
		copy(b[257:], "ustar\x0000")
		if typeflag == tar.TypeGNUSparse {
			copy(b[257:], "ustar  \x00")
			// These are the offset of the only part and the real size of the file, in base 256.
			b[386], b[483] = 0x80, 0x80
			for i := range 8 {
				b[397-i], b[494-i] = byte(size>>(8*i)), byte(size>>(8*i))
			}
			copy(b[398:], "00000000000\x00") // the size of that part
		}
		copy(b[148:156], "        ")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	padded := func(data []byte) []byte { return append(data, make([]byte, (512-len(data)%512)%512)...) }
	record := func(key, value string) string {
		n := len(key) + len(value) + 3
		for n != len(fmt.Sprintf("%d %s=%s\n", n, key, value)) {
			n++
		}
		return fmt.Sprintf("%d %s=%s\n", n, key, value)
	}
	end := make([]byte, 1024)
	if format == "old" {
		return append(header("./f", tar.TypeGNUSparse, size), end...)
	}
	records := map[string]string{
		"0.0": record("GNU.sparse.size", fmt.Sprint(size)) + record("GNU.sparse.numblocks", "1") + record("GNU.sparse.offset", fmt.Sprint(size)) + record("GNU.sparse.numbytes", "0"),
		"0.1": record("GNU.sparse.size", fmt.Sprint(size)) + record("GNU.sparse.numblocks", "1") + record("GNU.sparse.map", fmt.Sprintf("%d,0", size)) + record("GNU.sparse.name", "./f"),
		"1.0": record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.realsize", fmt.Sprint(size)) + record("GNU.sparse.name", "./f"),
	}[format]
	var content []byte
	if format == "1.0" {
		content = padded([]byte(fmt.Sprintf("1\n%d\n0\n", size)))
	}
	out := append(header("PaxHeaders/f", tar.TypeXHeader, int64(len(records))), padded([]byte(records))...)
	return append(append(append(out, header("./f", tar.TypeReg, int64(len(content)))...), content...), end...)
}

// TestS3Sparse checks that an entry that is a hole of 1 TiB does not fill the disk.
func TestS3Sparse(t *testing.T) {
	for _, format := range []string{"0.0", "0.1", "1.0", "old"} {
		data := sparse(t, format, 1<<40)
		if h, err := tar.NewReader(bytes.NewReader(data)).Next(); err != nil || h.Size != 1<<40 {
			t.Fatalf("%s: the test's archive is %+v, %v", format, h, err)
		}
		to := filepath.Join(t.TempDir(), "f")
		err := mustReturn(t, "Unpack", func() error {
			// The limit on file sizes protects the disk if Unpack writes the hole.
			var before, limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
				return err
			}
			limit = unix.Rlimit{Cur: 64 << 20, Max: before.Max}
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
				return err
			}
			defer unix.Setrlimit(unix.RLIMIT_FSIZE, &before)
			return Unpack(t.Context(), bytes.NewReader(data), "f", to, func(string) {})
		})
		if !errors.Is(err, errSparse) {
			t.Errorf("%s: %v", format, err)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("%s: the file was created", format)
		}
	}
}

// endless is an archive with a file of 1 TiB without holes.
type endless struct{ head *bytes.Reader }

func (e endless) Read(p []byte) (int, error) {
	if e.head.Len() > 0 {
		return e.head.Read(p)
	}
	// The delay limits the rate to 32 MB/s, because the speed of the disk is not part of the test.
	time.Sleep(time.Millisecond)
	return min(len(p), 32<<10), nil
}

// TestS3EndsWithContext checks that the end of the context, as caused by the first SIGINT, also
// ends the unpacking of an endless file.
func TestS3EndsWithContext(t *testing.T) {
	var head bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "./f", Typeflag: tar.TypeReg, Mode: 0o644, Size: 1 << 40, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	for name, top := range map[string]string{"a file": "f", "a file that is left out": "other"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
		err := mustReturn(t, "Unpack", func() error {
			return Unpack(ctx, endless{bytes.NewReader(head.Bytes())}, top, filepath.Join(t.TempDir(), "f"), func(string) {})
		})
		if top == "f" && !errors.Is(err, stopped) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestS3Deep checks that Unpack quickly refuses an entry that is 250,000 directories deep, and a
// long name, without creating files.
func TestS3Deep(t *testing.T) {
	for name, entry := range map[string]tar.Header{
		"a file":      {Name: "./d/" + strings.Repeat("a/", 250000) + "f"},
		"a directory": {Name: "./d/" + strings.Repeat("a/", 250000), Typeflag: tar.TypeDir},
		"a link":      {Name: "./d/f", Typeflag: tar.TypeLink, Linkname: "./d/" + strings.Repeat("a/", 250000) + "f"},
		"a long name": {Name: "./d/" + strings.Repeat("x/"+strings.Repeat("y", 250)+"/", 20) + "f"},
		"left out":    {Name: "./d/" + strings.Repeat("a/", 250000) + "f", Typeflag: tar.TypeFifo},
	} {
		to := filepath.Join(t.TempDir(), "d")
		var err error
		patience.Within(t, 10, name, func() { err = Unpack(t.Context(), archive(t, entry), "d", to, func(string) {}) })
		if !errors.Is(err, errDeep) || len(err.Error()) > 4000 {
			t.Errorf("%s: %.300v", name, err)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Errorf("%s: something was created", name)
			os.RemoveAll(to)
		}
	}
}

// TestUnpackWarnings covers a million links: both the number of warnings about them and the memory
// must be limited.
func TestUnpackWarnings(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		var err error
		for i := 0; i < 100000 && err == nil; i++ {
			err = out.WriteHeader(&tar.Header{Name: fmt.Sprintf("./d/l%d", i), Typeflag: tar.TypeSymlink, Linkname: "/etc"})
		}
		w.CloseWithError(errors.Join(err, out.Close()))
	}()
	var warnings []string
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := Unpack(t.Context(), r, "d", filepath.Join(t.TempDir(), "d"), func(text string) { warnings = append(warnings, text) }); err != nil {
		t.Fatal(err)
	}
	if n := len(warnings); n != maxWarnings+1 || !strings.Contains(warnings[maxWarnings], "99900 more") {
		t.Errorf("%d warnings, the last is %q", n, warnings[max(0, n-1)])
	}
	runtime.GC() // garbage is not in use
	if runtime.ReadMemStats(&after); after.HeapAlloc > before.HeapAlloc+20<<20 {
		t.Errorf("the heap grew by %d MB", (after.HeapAlloc-before.HeapAlloc)>>20)
	}
}

// TestUnpackOntoPipe checks that Unpack does not wait for a FIFO, and does not write to it, if another user has
// replaced the destination with it after Unpack has examined the destination.
func TestUnpackOntoPipe(t *testing.T) {
	base := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(base, "p"), 0o666); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	create := func() error {
		f, err := (&unpacker{root: root}).create("p", 0o644)
		return errors.Join(err, f.Close())
	}
	if err := mustReturn(t, "create", create); !errors.Is(err, unix.ENXIO) {
		t.Errorf("without a reader: %v, want ENXIO", err)
	}
	reader, err := os.OpenFile(filepath.Join(base, "p"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := mustReturn(t, "create", create); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("with a reader: %v", err)
	}
}

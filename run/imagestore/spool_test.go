package imagestore

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestF9LoadEndsWithContext checks that an interrupt ends the command while standard input sends no
// data.
func TestF9LoadEndsWithContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	silent, w := io.Pipe()
	defer w.Close()
	time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
	if _, _, err := tarWithin(ctx, t.TempDir(), silent); !errors.Is(err, stopped) {
		t.Error(err)
	}
}

// zeros returns n blocks of 64 MiB of zeros, each compressed to 64 KiB.
func zeros(t *testing.T, n int) []byte {
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if _, err := w.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(one.Bytes(), n)
}

// TestS13PackedZeros covers an archive of 4 MB that unpacks to 4 GB. Such an archive once filled
// the directory for temporary files.
func TestS13PackedZeros(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	data := zeros(t, 64)
	file := filepath.Join(dir, "a.tar.gz")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for name, from := range map[string]io.Reader{"a pipe": bytes.NewReader(data), "a file": opened} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		file, _, err := tarFile(t.Context(), dir, from)
		if err == nil {
			file.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "decompresses to more than 100 times its size") {
			t.Errorf("%s: %v", name, err)
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 10<<20 {
			t.Errorf("%s: %d MB were allocated", name, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	}
}

// TestSpool checks that podrun unpacks archives below the root directory, into a file without a
// name.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	root := filepath.Join(dir, "root")
	for name, from := range map[string]io.Reader{"a pipe": strings.NewReader("not packed"), "packed": bytes.NewReader(zeros(t, 2))} {
		file, done, err := tarFile(t.Context(), root, from)
		if err != nil {
			t.Fatal(name, err)
		}
		if at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); err != nil || !strings.HasPrefix(at, root) {
			t.Errorf("%s: the file is %s, %v", name, at, err)
		}
		if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
		done()
	}
}

package podlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hugeLine writes a log with one line that has no newline. The line is split into records, as a
// runtime does.
func hugeLine(t *testing.T, bytes int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	record := []byte("2026-01-02T03:04:05.000000006Z stdout P " + strings.Repeat("A", 16<<10) + "\n")
	for written := 0; written < bytes; written += len(record) {
		if _, err := f.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// allocated returns the total number of bytes that do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestTailOfALog(t *testing.T) {
	entry := func(stream, tag, text string) string {
		return "2026-01-02T03:04:05.000000006Z " + stream + " " + tag + " " + text + "\n"
	}
	for _, tc := range []struct {
		name, log    string
		lines, limit int
		want         string
	}{
		{"empty", "", 80, 2048, ""},
		{"both streams", entry("stdout", "F", "one") + entry("stderr", "F", "two"), 80, 2048, "one\ntwo\n"},
		{"the last lines", entry("stdout", "F", "one") + entry("stdout", "F", "two") + entry("stdout", "F", "three"), 2, 2048, "two\nthree\n"},
		{"no lines", entry("stdout", "F", "one"), 0, 2048, ""},
		{"a line in records", entry("stdout", "P", "on") + entry("stdout", "F", "e"), 1, 2048, "one\n"},
		{"without an end", entry("stdout", "F", "one") + entry("stdout", "P", "two"), 2, 2048, "one\ntwo"},
		{"the last bytes", entry("stdout", "F", "0123456789"), 80, 4, "789\n"},
		{"a character cut", entry("stdout", "F", "ää"), 80, 4, "ä\n"},
		{"not in the format", "root:x:0:0\n" + entry("stdout", "F", "one") + "\n", 80, 2048, "one\n"},
		{"a record that ends in what is read", strings.Repeat(entry("stdout", "F", strings.Repeat("x", 100)), 1000) + entry("stdout", "F", "end"), 1, 2048, "end\n"},
		{"one record without an end", strings.Repeat("A", 200<<10), 80, 2048, ""},
	} {
		path := filepath.Join(t.TempDir(), "0.log")
		if err := os.WriteFile(path, []byte(tc.log), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Tail(t.Context(), path, tc.lines, tc.limit)
		if err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestTailRefusesWhatIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Tail(t.Context(), path, 80, 2048); err == nil {
		t.Error("no error for a FIFO")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Tail(ctx, path, 80, 2048); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
}

// TestLogOfOneLineTakesLittleMemory (D2) checks that neither the memory for reading the end of a
// log nor the memory for printing the log depends on the length of the log's lines.
func TestLogOfOneLineTakesLittleMemory(t *testing.T) {
	path := hugeLine(t, 64<<20)
	var text string
	var err error
	if got := allocated(func() { text, err = Tail(t.Context(), path, 80, 2048) }); err != nil || got > 1<<20 {
		t.Errorf("the end of the log took %d bytes, %v", got, err)
	}
	if text != strings.Repeat("A", 2048) {
		t.Errorf("%d bytes: %.20q", len(text), text)
	}
	begun := time.Now()
	var shown counter
	if got := allocated(func() {
		err = Stream(t.Context(), Source{Container: "app", Path: path}, Output{Stdout: &shown}, Options{})
	}); err != nil || got > 16<<20 {
		t.Errorf("the log took %d bytes, %v", got, err)
	}
	if shown < 60<<20 {
		t.Errorf("shown were %d bytes", shown)
	}
	t.Logf("took %s", time.Since(begun))
}

// counter counts the bytes written.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

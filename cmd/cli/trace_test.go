package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTraceFileFollowsNoLink covers --trace=json:/tmp/t as root: the name may be a symlink or a FIFO of another user.
func TestTraceFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	target, link, fifo, plain := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "plain")
	for _, err := range []error{os.WriteFile(target, []byte("kept"), 0o600), os.Symlink(target, link), unix.Mkfifo(fifo, 0o600), os.WriteFile(plain, []byte("a longer text"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writeNoFollow(link, []byte("new")); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a symlink: %v", err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "kept" {
		t.Errorf("its target: %q, %v", text, err)
	}
	if err := writeNoFollow(fifo, []byte("new")); err == nil {
		t.Error("a FIFO without a reader was written")
	}
	stream, err := os.Create(filepath.Join(dir, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for _, format := range []string{"/dev/fd/%d", "/proc/self/fd/%d"} {
		if err := writeNoFollow(fmt.Sprintf(format, stream.Fd()), nil); err != nil {
			t.Errorf("a stream: %v", err)
		}
	}
	// The test's stderr may be a file of another user.
	if err := writeNoFollow("/dev/stderr", nil); err != nil && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the standard error stream: %v", err)
	}
	if err := writeNoFollow(plain, []byte("new")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(plain); err != nil || string(text) != "new" {
		t.Errorf("a file: %q, %v", text, err)
	}
}

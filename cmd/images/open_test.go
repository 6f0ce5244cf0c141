package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenSilentFIFO checks that the opening of a FIFO without a writer ends with the command.
func TestOpenSilentFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "silent")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openWithin(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the command ended", err)
	}
	// A writer ends the system call.
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err != nil {
		t.Error(err)
	} else {
		_ = f.Close()
	}
}

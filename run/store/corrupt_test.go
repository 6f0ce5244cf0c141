package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// TestIsCorrupt checks that a checkpoint is corrupt only if its content is lost, and not if it
// temporarily cannot be read.
func TestIsCorrupt(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "open", Path: "pod.yaml", Err: err} }
	for err, want := range map[error]bool{
		nil:                                false,
		errors.New("it has no pod"):        true,
		path(hostfile.ErrNotRegular):       true,
		path(hostfile.ErrTooLarge):         true,
		path(unix.ELOOP):                   true,
		path(unix.EMFILE):                  false,
		path(unix.ENOMEM):                  false,
		path(unix.EACCES):                  false,
		path(unix.EIO):                     false,
		path(context.DeadlineExceeded):     false,
		identity.CheckSchema("x", 1000000): false,
	} {
		id := identity.Pod{Namespace: "default", Name: "web"}
		if got := IsCorrupt(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
		if got := err != nil && IsCorrupt(BrokenCheckpoint(id, fmt.Errorf("web: %w", err))); got != want {
			t.Errorf("of a pod, %v: %v, want %v", err, got, want)
		}
	}
}

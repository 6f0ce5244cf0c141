package store

import (
	"fmt"
	"os"

	"github.com/podrun/podrun/identity"
)

// TryServeLock locks the root directory for a supervisor. It returns nil if another
// process holds the lock.
func TryServeLock(layout identity.Layout, holder string) (*FileLock, error) {
	return TryLock(layout.ServeLock(), holder)
}

// Supervised reports whether a supervisor runs for the root directory.
func Supervised(layout identity.Layout) bool { return IsLocked(layout.ServeLock()) }

// MakeStateDir makes a directory of state, if it is missing.
func MakeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make a directory of state: %w", err)
	}
	return nil
}

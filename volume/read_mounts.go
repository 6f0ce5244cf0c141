package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// readMounts lists the mounts of this process's mount namespace.
func readMounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMountinfo(string(data)), nil
}

// isMountPoint tells whether something is mounted at path, a bind mount of the
// same file system too. A path that is not there is none; a symlink is none.
func isMountPoint(ctx context.Context, path string) (bool, error) {
	return await(ctx, path, func() (bool, error) { return mountedAt(path) })
}

func mountedAt(path string) (bool, error) {
	self, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(self)
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the directory of %s: %w", path, err)
	}
	defer unix.Close(parent)
	a, err := mountID(self)
	if err != nil {
		return false, err
	}
	b, err := mountID(parent)
	return a != b, err
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cniDir is the directory in which libcni keeps results. containerd cannot set another one.
const cniDir = "/var/lib/cni"

// setupMounts prepares M. The order matters: mounts of the host must appear in M, but not the
// reverse (slave); a shared mount would also mount the tmpfs on the copies of its entries; and
// containers need shared mounts (mountPropagation).
func setupMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		// The first operation that requires a capability of U.
		return noUserNamespaces(fmt.Errorf("change the mount propagation: %w", err))
	}
	if err := setupCNI(cniDir); err != nil {
		return fmt.Errorf("mount %s: %w", cniDir, err)
	}
	return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")
}

// setupCNI makes the directory writable: it covers its parent. Its content is worthless after the
// end of U, because the networks are gone, too. A tmpfs on the directory itself is not sufficient: if
// root removes the empty directory on the host, as root's podrun does when its runtime ends, the
// kernel removes the mount in M, too.
func setupCNI(dir string) error {
	err := unix.Access(dir, unix.W_OK)
	if errors.Is(err, unix.ENOENT) {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		return nil
	}
	if err := coverDirectory(filepath.Dir(dir), filepath.Base(dir)); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

// coverDirectory mounts a tmpfs on a directory, with bind mounts of all its entries, so that new
// entries can be created. It omits one entry. Entries that the host creates later are not visible in M.
func coverDirectory(dir, omitted string) error {
	old, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer old.Close()
	entries, err := old.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == omitted {
			continue
		}
		if err := copyEntry(int(old.Fd()), filepath.Join(dir, e.Name()), e); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

// copyEntry makes an entry of a covered directory visible at path. A symbolic link is copied: a bind
// mount would be on its target.
func copyEntry(covered int, path string, e os.DirEntry) error {
	from := fmt.Sprintf("/proc/self/fd/%d/%s", covered, e.Name())
	switch {
	case e.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, path)
	case e.IsDir():
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	default:
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
	}
	return unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, "")
}

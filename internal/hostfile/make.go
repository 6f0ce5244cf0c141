package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeDirs creates a directory and its missing parents. They get exactly the given mode, regardless
// of the umask: podrun.service has a strict umask, but containers and log collectors of other users
// must be able to enter these directories. Existing directories keep their mode. It follows
// symlinks to existing directories. But if another process replaces a directory that MakeDirs has
// just created with a symlink, MakeDirs does not follow it. The error is a *fs.PathError.
func MakeDirs(path string, mode fs.FileMode) error {
	dir, err := openDirs(filepath.Clean(path), mode.Perm())
	if err != nil {
		return err
	}
	return unix.Close(dir)
}

// MakeDirsDurable creates a directory and its missing parents, and makes their directory entries durable.
// The umask applies to the mode. If the directory exists, MakeDirsDurable syncs nothing.
func MakeDirsDurable(path string, mode fs.FileMode) error {
	// parents contains the missing directories, the innermost first.
	var parents []string
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		_, err := os.Lstat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, filepath.Dir(dir))
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

// openDirs creates a directory and opens it. It may use O_PATH.
func openDirs(path string, mode fs.FileMode) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	parent := filepath.Dir(path)
	if err == nil || err != unix.ENOENT || parent == path {
		return fd, failedMake(path, err)
	}
	above, err := openDirs(parent, mode)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	name := filepath.Base(path)
	made := unix.Mkdirat(above, name, uint32(mode))
	if made != nil && made != unix.EEXIST {
		return -1, failedMake(path, made)
	}
	fd, err = unix.Openat(above, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil && made == nil {
		if err = unix.Fchmod(fd, uint32(mode)); err != nil {
			unix.Close(fd)
		}
	}
	return fd, failedMake(path, err)
}

// MakeFile creates an empty file with exactly the given mode, regardless of the umask. It does not
// change an existing file.
func MakeFile(path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		// If path is a dangling symlink, OpenFile creates the link's target.
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDONLY, mode); err == nil {
			err = f.Close()
		}
		return err
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}

// failedMake wraps an error of mkdir. It returns nil if err is nil.
func failedMake(path string, err error) error {
	if err == nil {
		return nil
	}
	return failed("mkdir", path, err)
}

package hostfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/faultpoint"
)

// Write replaces a file as a whole or leaves it as it is: it writes a temporary
// file in the same directory, syncs it, renames it onto path and syncs the
// directory. It replaces a symbolic link at path and does not follow it. The mode
// is exact, whatever the umask. If it fails, it removes the temporary file; a
// process that is killed leaves one named .BASE.RANDOM.
func Write(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, true)
}

// WriteUnsynced is Write without syncing: for a file that says nothing any more
// after the host has crashed.
func WriteUnsynced(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, false)
}

// Sync makes durable what WriteUnsynced wrote to path.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

func write(path string, data []byte, mode fs.FileMode, sync bool) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	faultpoint.At("file/" + filepath.Base(path) + "/created")
	if err := fill(f, data, mode, sync); err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	faultpoint.At("file/" + filepath.Base(path) + "/written")
	if err := os.Rename(f.Name(), path); err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	faultpoint.At("file/" + filepath.Base(path) + "/renamed")
	if !sync {
		return nil
	}
	return SyncDir(dir)
}

// fill writes and closes the file, and syncs it if asked to.
func fill(f *os.File, data []byte, mode fs.FileMode, sync bool) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// SyncDir makes durable which files and directories a directory has, such as after a rename.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

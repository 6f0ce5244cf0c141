package hostfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/faultpoint"
)

// Write replaces a file completely or leaves it unchanged. It writes a temporary file in the same
// directory, syncs it, renames it to path and syncs the directory. It does not follow a symbolic
// link at path, but replaces the link. The file gets exactly the given mode, regardless of the
// umask. If Write fails, it removes the temporary file. If the process is killed, a file named
// .BASE.RANDOM may remain.
func Write(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, true)
}

// WriteUnsynced is like Write, but does not sync. Callers use it for files that are useless after a
// crash of the host, or that Sync makes durable later.
func WriteUnsynced(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, false)
}

// Sync makes the file that WriteUnsynced wrote to path durable.
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

// fill writes a file and closes it. If sync is true, it also syncs the file.
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

// SyncDir makes changes of a directory's entries, such as a rename, durable.
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

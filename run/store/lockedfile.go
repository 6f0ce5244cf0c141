package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// LockedFile is a file whose content is valid only while the process that created
// it holds its lock. The kernel releases the lock when that process ends.
type LockedFile struct {
	file *os.File
	path string
}

// MakeLockedFile creates and locks a file in dir. The file's name is prefix followed by random
// characters. It creates dir if dir does not exist.
func MakeLockedFile(dir, prefix string, data []byte) (*LockedFile, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	// Readers skip a file with this name, so that they do not read the file before it is locked.
	f, err := os.CreateTemp(dir, "."+prefix)
	if err != nil {
		return nil, err
	}
	faultpoint.At("locked/" + filepath.Base(dir) + "/created")
	l := &LockedFile{file: f, path: f.Name()}
	final := filepath.Join(dir, filepath.Base(f.Name())[1:])
	_, err = f.Write(data)
	if err == nil {
		err = hostfile.Flock(f, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(l.path, final)
	}
	if err != nil {
		l.Release()
		return nil, err
	}
	faultpoint.At("locked/" + filepath.Base(dir) + "/renamed")
	l.path = final
	return l, nil
}

// name returns the file's name in its directory.
func (l *LockedFile) name() string { return filepath.Base(l.path) }

// set replaces the file's content.
func (l *LockedFile) set(data []byte) error {
	if _, err := l.file.WriteAt(data, 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(data)))
}

// Release removes the file and its lock. It may be called on nil.
func (l *LockedFile) Release() {
	if l == nil || l.file == nil {
		return
	}
	// If the removal fails, a sweep removes the file later. Until then, other processes ignore the file, because
	// it is not locked.
	_ = os.Remove(l.path)
	_ = hostfile.Unlock(l.file)
	l.file = nil
}

// temporaryAge is the minimum age at which podrun considers a temporary file to be a leftover of a
// killed process. A running process renames its temporary files immediately.
const temporaryAge = time.Minute

// sweepDir calls each with the name of every file in dir, except temporary files. It removes temporary
// files older than temporaryAge, because the processes that should have renamed them were killed. It
// treats a missing directory as empty.
func sweepDir(dir string, each func(name string)) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			each(entry.Name())
		} else if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > temporaryAge {
			_ = os.Remove(filepath.Join(dir, entry.Name())) // the next sweep tries again
		}
	}
	return nil
}

// HasStaleReservation reports whether a process that has ended left a reservation.
func HasStaleReservation(layout identity.Layout) bool {
	entries, _ := os.ReadDir(layout.Reservations()) // the next command that reads all reservations reports the error
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), ".") && !hostfile.IsLocked(filepath.Join(layout.Reservations(), e.Name()))
	})
}

// sweepLockedFiles removes the files of processes that have ended.
func sweepLockedFiles(dir string) error {
	return sweepDir(dir, func(name string) {
		if path := filepath.Join(dir, name); !hostfile.IsLocked(path) {
			_ = os.Remove(path) // the next sweep tries again
		}
	})
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// ServeLock makes a process the only supervisor of a root directory. It consists of two locks. One is
// on a file that names the holder; older versions check only this lock. The other is on the root
// directory, because another process may remove the file.
type ServeLock struct{ file, root *FileLock }

// TryServeLock locks the root directory for a supervisor, and removes temporary files of killed
// supervisors. It returns nil if another process holds the lock.
func TryServeLock(layout identity.Layout, holder string) (*ServeLock, error) {
	file, err := TryLock(layout.Serve().Lock(), holder)
	if file == nil || err != nil {
		return nil, err
	}
	root, err := FlockFile(layout.RootDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if root == nil || err != nil {
		file.Unlock()
		return nil, err
	}
	for _, dir := range serveDirs(layout) {
		// only a supervisor writes to these directories
		removeTemporaries(dir, 0)
	}
	return &ServeLock{file: file, root: &FileLock{File: root}}, nil
}

// Lost reports whether the path of the root directory no longer leads to the locked directory: it was removed or
// moved, or its file system was unmounted. An error that says nothing about this, such as EIO, does not count.
func (l *ServeLock) Lost(layout identity.Layout) bool {
	locked, err := l.root.File.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(layout.RootDir)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || err == nil && !os.SameFile(locked, now)
}

// Unlock releases the lock.
func (l *ServeLock) Unlock() {
	l.root.Unlock()
	l.file.Unlock()
}

// Supervised reports whether a supervisor runs for the root directory.
func Supervised(layout identity.Layout) bool {
	return hostfile.IsLocked(layout.Serve().Lock()) || hostfile.IsLocked(layout.RootDir)
}

// Supervisor returns the process ID of the root directory's supervisor. It returns 0 if no supervisor
// runs, or if its lock file does not contain the process ID.
func Supervisor(layout identity.Layout) int {
	if !Supervised(layout) {
		return 0
	}
	var pid int
	if _, err := fmt.Sscanf(Holder(layout.Serve().Lock()), "process %d ", &pid); err != nil || pid < 2 {
		return 0
	}
	return pid
}

// serveDirs returns the directories to which only a supervisor writes.
func serveDirs(layout identity.Layout) []string {
	return []string{string(layout.Serve()), layout.Serve().Sources(), layout.Serve().RemoteCopies()}
}

// SweepTemporaries removes temporary files of killed processes from podrun's state directories and from
// the pods' directories. It keeps files that a running process may be writing.
func SweepTemporaries(layout identity.Layout) error {
	dirs := append(serveDirs(layout), layout.ImageBackOff(), filepath.Join(layout.ImageRecords(), "pulled"), filepath.Join(layout.ImageRecords(), "pulling"), filepath.Join(layout.RootDir, "runtime"),
		string(layout.Services()), layout.Workloads(), layout.Jobs(), layout.CronJobs())
	pods, err := StoredPods(layout)
	if err != nil {
		return err
	}
	for _, id := range pods {
		dirs = append(dirs, string(layout.Pod(id.UID)))
		// the directory is missing if another process has removed the pod
		plugins, _ := os.ReadDir(layout.Pod(id.UID).Plugins())
		for _, plugin := range plugins {
			dirs = append(dirs, filepath.Join(layout.Pod(id.UID).Plugins(), plugin.Name()))
		}
	}
	for _, dir := range dirs {
		removeTemporaries(dir, temporaryAge)
	}
	return nil
}

// removeTemporaries removes temporary files that hostfile.Write created (.BASE.RANDOM) and that are
// older than age. It ignores errors, because the next call will try again.
func removeTemporaries(dir string, age time.Duration) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name := e.Name()
		random := name[strings.LastIndexByte(name, '.')+1:]
		if !e.Type().IsRegular() || name[0] != '.' || len(random) == 0 || len(random) >= len(name)-1 || strings.Trim(random, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && (age == 0 || time.Since(info.ModTime()) > age) {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// MakeStateDir creates a state directory if it is missing.
func MakeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create a state directory: %w", err)
	}
	return nil
}

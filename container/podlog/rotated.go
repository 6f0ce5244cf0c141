package podlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names of rotated files are the kubelet's (pkg/kubelet/logs): <log>.<time> or, if the file is compressed,
// <log>.<time>.gz. While podrun writes a compressed file, its name is <log>.<time>.tmp. The time is local time, in
// a format in which the names sort by time.
const (
	stampFormat    = "20060102-150405"
	compressSuffix = ".gz"
	tmpSuffix      = ".tmp"
)

// Limits on reading a log directory. They are necessary because other processes may write to the
// directory.
const (
	maxDirEntries = 1 << 16
	maxRotated    = 1000
	dirBatch      = 256
)

// rotatedFile is a rotated file of a log.
type rotatedFile struct {
	name   string // the file's name in the log's directory
	stamp  string // the time in the name
	suffix string // "", compressSuffix or tmpSuffix
}

// parseRotated parses the name of a rotated file of the log base. The result ok is false for any
// other name.
func parseRotated(base, name string) (f rotatedFile, ok bool) {
	rest, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return f, false
	}
	f.name, f.stamp = name, rest
	for _, suffix := range []string{compressSuffix, tmpSuffix} {
		if stamp, found := strings.CutSuffix(rest, suffix); found {
			f.stamp, f.suffix = stamp, suffix
		}
	}
	_, err := time.Parse(stampFormat, f.stamp)
	// The length is checked because time.Parse also accepts fractions.
	return f, err == nil && len(f.stamp) == len(stampFormat)
}

// logDir is an open directory of logs. It opens files relative to the directory, and never
// follows links.
type logDir struct{ root *os.Root }

// openDir opens the directory of a log. It refuses a symbolic link.
func openDir(path string) (*logDir, error) {
	dir := filepath.Dir(path)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: errors.Unwrap(err)}
	}
	return &logDir{root}, nil
}

func (d *logDir) close() { d.root.Close() }

// rotated returns the regular files that rotations of a log created, oldest first. It omits other
// kinds of files with such names, because they do not belong to the log.
func (d *logDir) rotated(base string) ([]rotatedFile, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []rotatedFile
	for seen := 0; ; {
		entries, err := f.ReadDir(dirBatch)
		for _, e := range entries {
			if r, ok := parseRotated(base, e.Name()); ok && e.Type().IsRegular() {
				out = append(out, r)
			}
		}
		seen += len(entries)
		switch {
		case errors.Is(err, io.EOF):
			slices.SortFunc(out, func(a, b rotatedFile) int { return cmp.Compare(a.name, b.name) })
			return out, nil
		case err != nil:
			return nil, err
		case seen > maxDirEntries || len(out) > maxRotated:
			return nil, fmt.Errorf("the log directory has more than %d files, or the log has more than %d rotated files: remove files that are not needed", maxDirEntries, maxRotated)
		}
	}
}

// open opens a regular file in the directory for reading. It refuses symbolic and hard links,
// because these may refer to a file that the reader of a log must not read.
func (d *logDir) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || links(info) > 1) {
		err = fmt.Errorf("%s: %w", name, errNotOnlyFile)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

var errNotOnlyFile = errors.New("it is not a regular file, or has several hard links")

// links returns the number of hard links to a file.
func links(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink)
}

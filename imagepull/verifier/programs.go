// Package verifier decides whether containers may use an image: it runs the programs of a directory, each of which
// must accept the image. The programs have the interface of containerd's image verifiers. podrun runs them before a
// container uses an image, and containerd runs them, through Main, when it pulls an image.
package verifier

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPrograms is the maximum number of programs. containerd would skip the others; podrun denies all images.
const maxPrograms = 16

// Programs are the programs of a directory.
type Programs struct {
	paths []string // sorted
	print string   // identifies the programs; see Print
}

// Print is a hash that changes when a program is added, removed, replaced or changed. It depends on the attributes of
// the files, not on their content, which may be large; only root can change a file without a new change time.
func (p Programs) Print() string { return p.print }

// Find returns the programs of a directory. It returns an error, which means that all images are denied, if there is
// no program, or if users other than root can change one: a program decides what runs as root.
func Find(dir string) (Programs, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Programs{}, fmt.Errorf("no image verifiers: %w", err)
	}
	for at := resolved; ; at = filepath.Dir(at) {
		if _, err := protected(at, unix.S_IFDIR); err != nil {
			return Programs{}, fmt.Errorf("image verifiers: %s %w", at, err)
		}
		if at == "/" {
			break
		}
	}
	d, err := os.Open(resolved)
	if err != nil {
		return Programs{}, fmt.Errorf("no image verifiers: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(maxPrograms + 1)
	switch {
	case len(names) == 0:
		return Programs{}, fmt.Errorf("%s contains no image verifiers, so no image is accepted", dir)
	case err != nil:
		return Programs{}, fmt.Errorf("image verifiers: %w", err)
	case len(names) > maxPrograms:
		return Programs{}, fmt.Errorf("%s contains more than %d image verifiers", dir, maxPrograms)
	}
	slices.Sort(names)
	var p Programs
	hash := sha256.New()
	for _, name := range names {
		path := filepath.Join(resolved, name)
		st, err := protected(path, unix.S_IFREG)
		if err == nil && st.Mode&unix.S_IXUSR == 0 {
			err = errors.New("is not executable")
		}
		if err != nil {
			return Programs{}, fmt.Errorf("image verifier %q %w", path, err)
		}
		p.paths = append(p.paths, path)
		fmt.Fprintf(hash, "%q %d %d %d %d %d\n", path, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	}
	p.print = hex.EncodeToString(hash.Sum(nil))
	return p, nil
}

// protected checks that a path is a file of the given type that only root can change. Other users may be able to write
// to a directory with the sticky bit, such as /tmp, because they cannot replace root's files in it.
func protected(path string, fileType uint32) (st unix.Stat_t, err error) {
	if err := unix.Lstat(path, &st); err != nil {
		return st, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != fileType && fileType == unix.S_IFDIR:
		return st, errors.New("is not a directory")
	case st.Mode&unix.S_IFMT != fileType:
		return st, errors.New("is not a regular file (links are not supported)")
	case st.Uid != 0:
		return st, fmt.Errorf("belongs to user %d (fix: chown root)", st.Uid)
	case st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0 && (fileType != unix.S_IFDIR || st.Mode&unix.S_ISVTX == 0):
		return st, errors.New("can be changed by users other than root (fix: chmod go-w)")
	}
	return st, nil
}

// names returns the base names of the programs, for messages.
func (p Programs) names() string {
	out := make([]string, len(p.paths))
	for i, path := range p.paths {
		out[i] = filepath.Base(path)
	}
	return strings.Join(out, ", ")
}

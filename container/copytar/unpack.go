package copytar

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
)

// ErrEmpty reports that a stream has no entries, which means that the requested path does not
// exist.
var ErrEmpty = errors.New("the archive is empty")

// ErrLink reports that the requested entry itself is a symbolic link, so nothing was copied.
var ErrLink = errors.New("it is a symbolic link")

// errSpecial reports that the requested entry itself is a device or pipe.
var errSpecial = errors.New("it is not a regular file, directory or link")

// errOutside reports that an entry is not below the requested path.
var errOutside = errors.New("its path is outside the requested path")

// Unpack writes the entry top of a tar stream to the path in "to". If that path is an existing
// directory, Unpack writes the content of the entry into this directory. Files get their permissions
// without set-uid, set-gid and sticky bits, and belong to the caller. Below top, Unpack skips devices,
// pipes and, like `kubectl cp`, symlinks. For a symlink, it calls warn. The memory that it uses does not
// depend on the size of the stream. When ctx is done, Unpack returns after the current read of the
// stream.
//
// It returns an error if the stream is empty or truncated, or if top is a symlink (ErrLink), device or
// pipe. It also returns an error if the stream contains an entry outside top, a path beyond the limits
// or a sparse file, or if a write would be outside the destination.
func Unpack(ctx context.Context, from io.Reader, top, to string, warn func(string)) error {
	parent, name := filepath.Split(filepath.Clean(to))
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		parent, name = to, "."
	} else if parent == "" {
		parent = "."
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{root: root, top: top, name: name, warnings: warnings{warn: warn}}
	defer u.end()
	entries := tar.NewReader(endsWith{ctx, from})
	for n := 0; ; n++ {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return ErrEmpty
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.unpack(entry, entries); err != nil {
			return fmt.Errorf("unpack %q: %w", problem.Brief(entry.Name), err)
		}
	}
}

type unpacker struct {
	root      *os.Root
	top, name string
	warnings
}

// place returns the path of an entry relative to the root.
func (u *unpacker) place(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errOutside
		}
	}
	rel, ok := within(name, u.top)
	if !ok {
		return "", errOutside
	}
	return path.Join(filepath.ToSlash(u.name), rel), nil
}

func (u *unpacker) unpack(entry *tar.Header, content io.Reader) error {
	if err := errors.Join(checkPath(entry.Name), checkPath(entry.Linkname)); err != nil {
		return err
	}
	if isSparse(entry) {
		return errSparse
	}
	name, err := u.place(entry.Name)
	if err != nil {
		return err
	}
	rel, _ := within(entry.Name, u.top)
	mode := fs.FileMode(entry.Mode) & 0o777
	switch entry.Typeflag {
	case tar.TypeDir:
		// The directory must be writable, so that files can be added. An existing directory keeps
		// its mode.
		return u.root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
		return u.file(name, mode, content)
	case tar.TypeLink:
		old, err := u.place(entry.Linkname)
		if err != nil {
			return fmt.Errorf("link to %q: %w", entry.Linkname, err)
		}
		if err := u.parent(name); err != nil {
			return err
		}
		return u.root.Link(old, name)
	case tar.TypeSymlink:
		if rel == "." {
			return ErrLink
		}
		u.add("%q is skipped: it is a symbolic link to %q", entry.Name, entry.Linkname)
	default:
		if rel == "." {
			return errSpecial
		}
		u.add("%q is skipped: %v", entry.Name, errSpecial)
	}
	return nil
}

// isSparse reports whether an entry has holes, in one of GNU tar's formats. archive/tar fills holes
// with zeros that the stream does not contain: a header of 1 KiB can cause up to 1 TiB.
func isSparse(entry *tar.Header) bool {
	for key := range entry.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return entry.Typeflag == tar.TypeGNUSparse
}

func (u *unpacker) parent(name string) error {
	if dir := path.Dir(name); dir != "." {
		return u.root.MkdirAll(dir, 0o755)
	}
	return nil
}

func (u *unpacker) file(name string, mode fs.FileMode, content io.Reader) error {
	if err := u.parent(name); err != nil {
		return err
	}
	if at, err := u.root.Lstat(name); err == nil && !at.Mode().IsRegular() {
		return fmt.Errorf("%s exists and is not a regular file", name)
	}
	f, err := u.create(name, mode)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// create opens a regular file for writing, and creates it if it does not exist. Another user may have replaced
// the file since it was examined, for example with a FIFO, so create must not block.
func (u *unpacker) create(name string, mode fs.FileMode) (*os.File, error) {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	if at, err := f.Stat(); err != nil || !at.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err, f.Close())
	}
	return f, nil
}

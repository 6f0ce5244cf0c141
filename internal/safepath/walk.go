package safepath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openLevels is the number of parent directories that a walk keeps open. A container can nest
// directories to any depth, so the use of descriptors and memory must not depend on the depth. Ordinary
// trees have fewer levels: a walk of such a tree does not depend on the parents of its directories, which
// a container can change.
const openLevels = 128

// bufferedLevels is the number of parent directories of which a walk keeps the listing's buffer.
const bufferedLevels = 8

// ErrMoved means that a walk cannot return from a deeply nested directory to its parent.
var ErrMoved = errors.New("a directory was moved while podrun walked the tree: retry")

// Visitor contains the functions that Walk calls. If one of them returns an error other than
// ENOENT, the walk ends. Enter and Leave may be nil.
type Visitor struct {
	// Walk calls Enter for each directory before it visits the directory's entries. The first call is
	// for the root of the walk. A container can nest directories while podrun walks, so that it calls
	// Leave for none of them.
	Enter func(dir int) error
	// Walk calls File for each entry that is not a directory. This includes symlinks.
	File func(dir int, name string) error
	// Walk calls Leave for each directory after it has visited the directory's entries. The last
	// call is for the root of the walk.
	Leave func(dir int) error
}

// level is a directory on the path from the root of a walk to its current position.
type level struct {
	// The listing is closed (fd -1) if the level is more than openLevels above the current
	// position.
	*Listing
	// The walk uses id to recognize the directory when it returns to it.
	id fileID
}

// fileID identifies an open file.
type fileID struct{ dev, ino, mount uint64 }

// Walker walks below a directory. It does not follow symlinks or enter mounts. It ignores entries that
// disappear during the walk.
type Walker struct {
	visit  Visitor
	levels []level
}

// NewWalker begins a walk below an open directory. The walk has its own descriptor. The caller must
// call Close.
func NewWalker(root int, visit Visitor) (*Walker, error) {
	w := &Walker{visit: visit}
	fd, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = w.enter(fd)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Walk visits everything below an open directory, and then the directory itself. It does not enter
// mounts, and ignores entries that disappear during the walk. The error is the visitor's error with
// the path of the entry, or the context's cause. The error is ErrMoved if a directory was moved out
// of the tree.
func Walk(ctx context.Context, root int, visit Visitor) error {
	w, err := NewWalker(root, visit)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Continue(ctx)
}

// Continue continues the walk until its end or until ctx ends, which does not end the walk: a later call
// continues it. Until then, the walk keeps its descriptors, but no buffers. After any other error, the walk
// cannot be continued. The errors are those of Walk.
func (t *Walker) Continue(ctx context.Context) error {
	for len(t.levels) > 0 {
		if ctx.Err() != nil {
			for _, l := range t.levels {
				l.release()
			}
			return context.Cause(ctx)
		}
		if err := t.step(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the walk's descriptors.
func (t *Walker) Close() {
	for _, l := range t.levels {
		l.Close()
	}
	t.levels = nil
}

// step visits the next entry of the current directory. If no entry remains, it leaves the
// directory.
func (t *Walker) step() error {
	at := t.levels[len(t.levels)-1]
	name, err := at.Next()
	// Either no entry remains, or the directory was removed.
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
		return t.leave()
	}
	if err == nil {
		err = t.entry(at.fd, name)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", nameOf(at.fd, name), err)
}

// nameOf returns the path of a file in an open directory, for messages. If the path is too long
// for the kernel, it returns only the file's name.
func nameOf(dir int, name string) string {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir)); err == nil {
		return path + "/" + name
	}
	return name
}

// entry enters a directory, or visits a file.
func (t *Walker) entry(dir int, name string) error {
	sub, err := OpenSubdir(dir, name)
	if err == nil {
		return t.enter(sub)
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = t.visit.File(dir, name)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, ErrOtherMount) {
		return nil
	}
	return err
}

// enter descends into a directory. It takes ownership of the directory's descriptor.
func (t *Walker) enter(fd int) error {
	id, err := identify(fd)
	if err == nil && t.visit.Enter != nil {
		err = t.visit.Enter(fd)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	t.levels = append(t.levels, level{Listing: &Listing{ctx: context.Background(), fd: fd}, id: id})
	// When the walk returns, the listing reads the rest of the batch again.
	if above := len(t.levels) - 1 - bufferedLevels; above >= 0 {
		t.levels[above].release()
	}
	if above := len(t.levels) - 1 - openLevels; above >= 0 {
		t.levels[above].Close()
	}
	return nil
}

// leave finishes the current directory and returns to its parent.
func (t *Walker) leave() error {
	at := t.levels[len(t.levels)-1]
	if t.visit.Leave != nil {
		if err := t.visit.Leave(at.fd); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if n := len(t.levels) - 2; n >= 0 && t.levels[n].fd < 0 {
		if err := t.reopen(t.levels[n], at.fd); err != nil {
			return err
		}
	}
	t.levels = t.levels[:len(t.levels)-1]
	at.Close()
	return nil
}

// reopen opens a level again, as the parent of the directory below it, and continues the level's listing. If another
// process has moved the directory below, its parent is no longer the level's directory, and reopen returns ErrMoved.
func (t *Walker) reopen(l level, below int) error {
	fd, err := unix.Openat(below, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return ErrMoved // the directory below was removed
	}
	if err != nil {
		return err
	}
	id, err := identify(fd)
	if err == nil && id != l.id {
		err = ErrMoved
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	l.fd = fd
	return nil
}

// identify returns the ID of an open file.
func identify(fd int) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, err
	}
	mount, err := mountID(fd)
	return fileID{uint64(st.Dev), st.Ino, mount}, err
}

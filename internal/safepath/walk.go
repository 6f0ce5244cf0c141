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
// directories to any depth, so the use of descriptors and memory must not depend on the depth.
const openLevels = 64

// ErrMoved means that a walk cannot return from a deeply nested directory to its parent.
var ErrMoved = errors.New("a directory was moved while podrun walked the tree: retry")

// Visitor contains the functions that Walk calls. If one of them returns an error other than
// ENOENT, the walk ends. Neither function may be nil.
type Visitor struct {
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

// treeWalk walks below a directory. It does not follow symlinks or enter mounts. It ignores
// entries that disappear during the walk.
type treeWalk struct {
	ctx    context.Context
	visit  Visitor
	levels []level
}

// Walk visits everything below an open directory, and then the directory itself. It does not enter
// mounts, and ignores entries that disappear during the walk. The error is the visitor's error with
// the path of the entry, or the context's cause. The error is ErrMoved if a directory was moved out
// of the tree.
func Walk(ctx context.Context, root int, visit Visitor) error {
	t := &treeWalk{ctx: ctx, visit: visit}
	defer t.close()
	fd, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = t.enter(fd)
	}
	for err == nil && len(t.levels) > 0 {
		err = t.step()
	}
	return err
}

func (t *treeWalk) close() {
	for _, l := range t.levels {
		l.Close()
	}
}

// step visits the next entry of the current directory. If no entry remains, it leaves the
// directory.
func (t *treeWalk) step() error {
	at := t.levels[len(t.levels)-1]
	name, err := at.Next()
	// Either no entry remains, or the directory was removed.
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
		return t.leave()
	}
	if err == nil {
		err = t.entry(at.fd, name)
	}
	if err == nil || t.ctx.Err() != nil {
		return err
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
func (t *treeWalk) entry(dir int, name string) error {
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
func (t *treeWalk) enter(fd int) error {
	id, err := identify(fd)
	if err != nil {
		unix.Close(fd)
		return err
	}
	names := &Listing{ctx: t.ctx}
	names.open(fd)
	t.levels = append(t.levels, level{Listing: names, id: id})
	if above := len(t.levels) - 1 - openLevels; above >= 0 {
		// When the walk returns, reopen reads the rest of the batch again.
		t.levels[above].Close()
	}
	return nil
}

// leave finishes the current directory and returns to its parent.
func (t *treeWalk) leave() error {
	at := t.levels[len(t.levels)-1]
	if err := t.visit.Leave(at.fd); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
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
func (t *treeWalk) reopen(l level, below int) error {
	fd, err := unix.Openat(below, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	id, err := identify(fd)
	if err == nil && id != l.id {
		err = ErrMoved
	}
	if err == nil {
		_, err = unix.Seek(fd, l.next, io.SeekStart)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	l.open(fd)
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

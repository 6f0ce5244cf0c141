package safepath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openLevels is the number of parent directories that a walk keeps open. A container
// determines the depth of its directories, so neither descriptors nor memory may depend
// on it.
const openLevels = 64

// ErrMoved reports that the way back up from a deeply nested directory is lost.
var ErrMoved = errors.New("a directory was moved while podrun walked the tree: retry")

// Visitor has the functions that Walk calls; an error ends the walk, ENOENT aside.
// Neither function may be nil.
type Visitor struct {
	// File is called for each entry that is not a directory, symlinks included.
	File func(dir int, name string) error
	// Leave is called for each directory after all its entries, the walk's root
	// last.
	Leave func(dir int) error
}

// level is a directory between the root of a walk and its current position.
type level struct {
	*Listing        // closed (fd -1) in a level that is far above
	id       fileID // by which the directory is found again from below
}

// fileID distinguishes two open files.
type fileID struct{ dev, ino, mount uint64 }

// treeWalk walks below a directory, without following symlinks or entering mounts.
// What vanishes during the walk is passed over.
type treeWalk struct {
	ctx    context.Context
	visit  Visitor
	levels []level
}

// Walk visits everything below an open directory, and the directory itself. It
// does not enter mounts and passes over what vanishes during the walk. The error
// is the visitor's with the path of the entry, ErrMoved if a directory was moved
// out of the walk, or the context's cause.
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

// step visits the next name of the lowest directory, or leaves it.
func (t *treeWalk) step() error {
	at := t.levels[len(t.levels)-1]
	name, err := at.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) { // it is empty, or was removed
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

// nameOf names a file of an open directory in messages, by its path if that is
// not too long for the kernel.
func nameOf(dir int, name string) string {
	if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir)); err == nil {
		return path + "/" + name
	}
	return name
}

// entry visits a name: enters a directory, or visits a file.
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

// enter descends into a directory, and takes over its descriptor.
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
		t.levels[above].Close() // reopen reads the rest of its batch again
	}
	return nil
}

// leave finishes the lowest directory and goes back up.
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

// reopen opens a level again from the directory below it, and continues the listing at
// its position. If the directory was moved, its parent is a different one: the error is
// ErrMoved.
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

// identify reads which file is open.
func identify(fd int) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, err
	}
	mount, err := mountID(fd)
	return fileID{uint64(st.Dev), st.Ino, mount}, err
}

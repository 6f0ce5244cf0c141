package safepath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// maxDepth limits the depth of the recursion, and so the number of open descriptors. A
// container can nest directories to any depth.
const maxDepth = 64

// deletion deletes one tree. It moves directories at maxDepth to the top of the tree, so that
// deeply nested directories cannot exhaust the descriptors.
type deletion struct {
	ctx context.Context
	// top is the descriptor of the tree's root. It is -1 until the first directory is opened.
	top int
	// moved is the number of directories that were moved to the top.
	moved int
}

// Clear deletes everything in an open directory except the entries in keep. It deletes symlinks,
// not their targets. It does not enter mounts. If there is a mount below the directory, it returns
// ErrOtherMount. If another process has removed the directory, Clear succeeds.
func Clear(ctx context.Context, dir int, keep ...string) error {
	d := deletion{ctx: ctx, top: dir}
	return d.clear(dir, 0, keep)
}

// Remove deletes the entry name of an open directory. The entry is a file, a symlink (whose target
// it does not delete), or a directory, which it deletes with its content like Clear. It succeeds if
// the entry does not exist, or if another process removes it concurrently.
func Remove(ctx context.Context, dir int, name string) error {
	d := deletion{ctx: ctx, top: -1}
	if err := d.remove(dir, name, 0); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// clear deletes the content of a directory. At the first level, it keeps the entries in keep.
func (d *deletion) clear(dir, depth int, keep []string) error {
	for {
		// The directory may contain new entries: during the last pass, another process may have
		// added files, or this process may have moved directories up from a lower level.
		done, err := d.pass(dir, depth, keep)
		if errors.Is(err, unix.ENOENT) {
			// Another podrun process has removed the empty directory of a deleted pod.
			return nil
		}
		if err != nil || done == 0 {
			return err
		}
	}
}

// pass lists a directory once and deletes its entries. It returns the number of entries.
func (d *deletion) pass(dir, depth int, keep []string) (done int, err error) {
	list, err := List(d.ctx, dir)
	if err != nil {
		return 0, err
	}
	defer list.Close()
	for {
		name, err := list.Next()
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
		if depth == 0 && slices.Contains(keep, name) {
			continue
		}
		if err := d.remove(dir, name, depth); err != nil && !errors.Is(err, unix.ENOENT) {
			return done, fmt.Errorf("%s: %w", name, err)
		}
		done++
	}
}

// remove deletes one entry of a directory: a file, a symlink (whose target it does not delete), or
// a directory with its content.
func (d *deletion) remove(dir int, name string, depth int) error {
	if err := d.ctx.Err(); err != nil {
		return context.Cause(d.ctx)
	}
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	sub, openErr := OpenSubdir(dir, name)
	if openErr != nil {
		if errors.Is(openErr, unix.ENOTDIR) || errors.Is(openErr, unix.ELOOP) {
			return err
		}
		return openErr
	}
	defer unix.Close(sub)
	if d.top < 0 {
		d.top = sub
	}
	if depth >= maxDepth {
		d.moved++
		return unix.Renameat(dir, name, d.top, fmt.Sprintf(".podrun-remove-%d-%d", unix.Getpid(), d.moved))
	}
	if err := d.clear(sub, depth+1, nil); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

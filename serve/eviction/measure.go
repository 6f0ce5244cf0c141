package eviction

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
)

// maxEntries limits the number of files that ReadDisk counts in one directory, because a
// container can create any number of files.
const maxEntries = 4 << 20

// errEnough stops the count if a directory has more than maxEntries files.
var errEnough = errors.New("too many files")

// ReadDisk measures the disk usage of a directory like du. It counts blocks and inodes,
// including the inode of the directory. A file with several names counts once. It does not
// follow symlinks or enter mounts. It counts at most 4,194,304 entries. If the directory does
// not exist, the usage is zero. The error is that of ctx, or an I/O error.
func ReadDisk(ctx context.Context, dir string) (Disk, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return Disk{}, nil
	}
	if err != nil {
		return Disk{}, fmt.Errorf("measure %s: %w", dir, err)
	}
	defer unix.Close(fd)
	c := counter{most: maxEntries, linked: map[uint64]bool{}}
	if err := safepath.Walk(ctx, fd, safepath.Visitor{File: c.file, Leave: c.leave}); err != nil && !errors.Is(err, errEnough) {
		return c.sum, fmt.Errorf("measure %s: %w", dir, err)
	}
	return c.sum, nil
}

// ReadFile measures the disk usage of a regular file: blocks, and one inode. It does not follow a
// symlink at path. If the file is not a regular file or cannot be read, the usage is zero.
func ReadFile(path string) Disk {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Disk{}
	}
	return Disk{st.Blocks * 512, 1}
}

// counter sums up the usage of a directory tree.
type counter struct {
	sum    Disk
	most   int64
	linked map[uint64]bool // inodes of files with several names that have already been counted
}

func (c *counter) file(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Nlink > 1 {
		if c.linked[st.Ino] {
			return nil
		}
		c.linked[st.Ino] = true
	}
	return c.add(&st)
}

func (c *counter) leave(dir int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	return c.add(&st)
}

func (c *counter) add(st *unix.Stat_t) error {
	c.sum = c.sum.Plus(Disk{st.Blocks * 512, 1})
	if c.sum.Inodes > c.most {
		return errEnough
	}
	return nil
}

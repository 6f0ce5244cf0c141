package eviction

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
)

// maxNames limits the number of names in a directory, because a container can create any number of
// names, and can move them ahead of a walk, which then has no end.
const maxNames = 4 << 20

// ErrPrevented means that the containers of a pod prevent the measurement of a directory.
var ErrPrevented = errors.New("its containers prevent the measurement")

// errEnough ends a walk after maxNames names.
var errEnough = errors.New("too many names")

// Measurement measures the disk usage of a directory, like du. It counts blocks and inodes, including the
// inode of the directory. A file with several names counts once. It does not follow symlinks or enter
// mounts. It is not safe for concurrent use.
type Measurement struct {
	dir    string
	walker *safepath.Walker
	counter
}

// Measure begins a measurement of a directory. The caller must call Close.
func Measure(dir string) *Measurement {
	return &Measurement{dir: dir, counter: counter{most: maxNames}}
}

// Continue measures until the end of the directory, or until ctx ends; a later call then continues. If
// the directory does not exist, the usage is zero. The error is that of ctx, or an I/O error, or
// ErrPrevented: the directory has more than 4,194,304 names, or its subdirectories are nested too deeply
// and move. After the latter errors, the measurement cannot be continued. With any error, Used is a
// part of the usage.
func (m *Measurement) Continue(ctx context.Context) error {
	err := m.walk(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, safepath.ErrMoved) || errors.Is(err, errEnough):
		err = fmt.Errorf("%w: %w", ErrPrevented, err)
	}
	return fmt.Errorf("measure %s: %w", m.dir, err)
}

func (m *Measurement) walk(ctx context.Context) error {
	if m.walker == nil {
		fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		m.linked = map[uint64]bool{}
		if m.walker, err = safepath.NewWalker(fd, safepath.Visitor{Enter: m.enter, File: m.file}); err != nil {
			return err
		}
	}
	return m.walker.Continue(ctx)
}

// Used returns the usage that the measurement has found.
func (m *Measurement) Used() Disk { return m.sum }

// Close releases the measurement's descriptors and memory.
func (m *Measurement) Close() {
	if m.walker != nil {
		m.walker.Close()
	}
	m.linked = nil
}

// ReadDisk measures the disk usage of a directory to which containers cannot add names, as Measure
// does. The error is that of Continue.
func ReadDisk(ctx context.Context, dir string) (Disk, error) {
	m := Measure(dir)
	defer m.Close()
	err := m.Continue(ctx)
	return m.Used(), err
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
	names  int64
	most   int64           // of names
	linked map[uint64]bool // inodes of files with several names that have already been counted
}

func (c *counter) file(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Nlink > 1 {
		if c.linked[st.Ino] {
			return c.count()
		}
		c.linked[st.Ino] = true
	}
	c.add(&st)
	return c.count()
}

func (c *counter) enter(dir int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	c.add(&st)
	return c.count()
}

func (c *counter) add(st *unix.Stat_t) { c.sum = c.sum.Plus(Disk{st.Blocks * 512, 1}) }

// count counts a name.
func (c *counter) count() error {
	if c.names++; c.names > c.most {
		return errEnough
	}
	return nil
}

package safepath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// location identifies a file by its file system and its path there. Two paths of the same file, such as a symlink, a
// bind mount and its source, have the same location.
type location struct {
	major, minor int
	path         string // in the file system
	shown        string // in this process's mount namespace
}

// locate returns the location of an open file.
func locate(fd int, mounts []*mountinfo.Info) (location, error) {
	id, err := mountID(fd)
	if err != nil {
		return location{}, err
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return location{}, err
	}
	for _, m := range mounts {
		if uint64(m.ID) != id {
			continue
		}
		below, err := filepath.Rel(m.Mountpoint, path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			return location{}, fmt.Errorf("%s was moved", path)
		}
		return location{m.Major, m.Minor, filepath.Join(m.Root, below), path}, nil
	}
	return location{}, fmt.Errorf("the mount of %s is not in mountinfo", path)
}

// overlaps reports whether one of two files is the other one, or is in it. They also overlap if one of them contains
// the mount point of the other one.
func (l location) overlaps(o location) bool {
	either := func(a, b string) bool { return inside(a, b) || inside(b, a) }
	return l.major == o.major && l.minor == o.minor && either(l.path, o.path) || either(l.shown, o.shown)
}

func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Overlap returns the first of the paths that an open file of the host, including the mounts below it, is, contains or
// is in, under any name. It returns "" if there is none. A path that does not exist overlaps nothing. The error means
// that Overlap could not determine this.
func Overlap(ctx context.Context, fd int, paths []string) (string, error) {
	if len(paths) == 0 {
		return "", nil
	}
	mounts, err := Mounts()
	if err != nil {
		return "", err
	}
	file, err := locate(fd, mounts)
	if err != nil {
		return "", err
	}
	places := []location{file}
	for _, m := range mounts {
		if m.Mountpoint != file.shown && inside(m.Mountpoint, file.shown) {
			places = append(places, location{m.Major, m.Minor, m.Root, m.Mountpoint})
		}
	}
	for _, path := range paths {
		other, err := locatePath(ctx, path, mounts)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return "", err
		}
		for _, place := range places {
			if place.overlaps(other) {
				return path, nil
			}
		}
	}
	return "", nil
}

// locatePath returns the location of a path. It follows symlinks.
func locatePath(ctx context.Context, path string, mounts []*mountinfo.Info) (location, error) {
	file, err := OpenPath(ctx, path)
	if err != nil {
		return location{}, err
	}
	defer file.Close()
	return locate(int(file.Fd()), mounts)
}

// OpenPath opens a path of the host only to name it (O_PATH). It follows symlinks.
func OpenPath(ctx context.Context, path string) (*os.File, error) {
	return Await(ctx, path, func() (*os.File, error) { return os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
}

// BindTree binds an open file or directory, with the mounts below it, at the path target, which it creates. Mounts that
// appear below the source later also appear at the target. Unmounting a mount below the target does not unmount it below
// the source: the mounts are slaves of the source's mounts before they are visible.
func BindTree(source *os.File, target string) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), targetMode); err != nil {
		return err
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return err
	}
	err = attachTree(source, target)
	if errors.Is(err, unix.ENOSYS) {
		// Linux before 5.12
		if err = Bind(source, target); err == nil {
			err = unix.Mount("", target, "", unix.MS_SLAVE|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("bind %s to %s: %w", source.Name(), target, err)
	}
	return nil
}

func attachTree(source *os.File, target string) error {
	tree, err := unix.OpenTree(int(source.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_SLAVE}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// resolveInside makes the kernel take the volume for the root of everything on
// the way: absolute symlinks and ".." stay inside, whoever swaps what meanwhile
// (CVE-2017-1002101, CVE-2021-25741). Needs Linux 5.6.
const resolveInside = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// OpenSubpath opens a path inside a volume, only to bind it (O_PATH). A missing
// one is made, as directories with the permissions of the volume's own. A
// symlink on the way is followed inside the volume; one that leads nowhere is an
// error.
func OpenSubpath(volume, subpath string) (*os.File, error) {
	root, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open volume %s: %w", volume, err)
	}
	defer unix.Close(root)
	fd, err := openInside(root, subpath)
	if errors.Is(err, unix.ENOENT) {
		if err := makeInside(root, subpath); err != nil {
			return nil, fmt.Errorf("make subPath %q of %s: %w", subpath, volume, err)
		}
		fd, err = openInside(root, subpath)
	}
	if err != nil {
		return nil, fmt.Errorf("open subPath %q of %s: %w", subpath, volume, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(volume, subpath)), nil
}

func openInside(root int, path string) (int, error) {
	for {
		fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveInside})
		switch {
		case errors.Is(err, unix.EAGAIN):
			// Something was renamed meanwhile and the kernel can't be sure: again.
		case errors.Is(err, unix.ENOSYS):
			return -1, fmt.Errorf("openat2: %w: subPath needs Linux 5.6 or newer", err)
		default:
			return fd, err
		}
	}
}

// makeInside makes the missing directories of a path, one at a time, each in a
// directory that was opened inside the volume.
func makeInside(root int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return err
	}
	at := "."
	for _, name := range strings.Split(filepath.Clean(path), "/") {
		if err := makeOne(root, at, name, st.Mode); err != nil {
			return err
		}
		at = filepath.Join(at, name)
	}
	return nil
}

func makeOne(root int, parent, name string, mode uint32) error {
	dir, err := openInside(root, parent)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Mkdirat(dir, name, mode&0o777)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	// The umask may have taken bits away; setgid comes from the parent.
	made, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	var st unix.Stat_t
	if err := unix.Fstat(made, &st); err != nil {
		return err
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", made), fileMode(st.Mode|mode&0o777))
}

// MountSubpath binds a path inside a volume at target. A mount that an earlier
// run of the container left there is taken off first: the path may be another
// one by now.
func MountSubpath(volume, subpath, target string) error {
	source, err := OpenSubpath(volume, subpath)
	if err != nil {
		return err
	}
	defer source.Close()
	err = unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return BindSubpath(source, target)
}

// BindSubpath binds what is open at target, which it makes: a directory for a
// directory, a file for anything else. Target is below the pod's directory,
// where Remove finds the mount.
func BindSubpath(source *os.File, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &st); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return err
	}
	if err := makeTarget(target, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	from := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source.Name(), target, err)
	}
	return nil
}

func makeTarget(target string, dir bool) error {
	if dir {
		return makeDir(target, dirMode)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

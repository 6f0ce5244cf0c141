// Package safepath operates on directories that a container can change concurrently. It lists,
// walks, writes, binds, unmounts and removes files below an open directory. Only OpenSubpath and
// ReadFile follow symlinks, and they never open anything outside the volume. Walk, Clear and Remove
// do not enter mounts. The use of memory and descriptors is constant: it does not depend on the
// number of entries or the depth of a directory.
//
// An open directory is a descriptor of golang.org/x/sys/unix. The caller owns and closes it. A
// function that takes a path follows symlinks in all elements except the last. Therefore, only root
// may have write access to the parent directories. Stat also follows a symlink in the last element.
//
// Errors wrap the unix.Errno of the system call. When its context ends, a function returns an error
// that wraps the context's cause. The functions are safe for concurrent use. A Listing is not.
package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOtherMount means that a directory is on a different mount than its parent.
var ErrOtherMount = errors.New("it is on another mount")

// OpenSubdir opens the directory name in dir for reading. It fails with ELOOP or ENOTDIR on a
// symlink. It fails with ErrOtherMount on a mount point, including that of a bind mount of the same
// file system. The caller must close the descriptor.
func OpenSubdir(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	here, err := mountID(dir)
	if err == nil {
		var there uint64
		if there, err = mountID(fd); err == nil && here != there {
			err = ErrOtherMount
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Chmod sets the permission bits and the setuid, setgid and sticky bits of an open file. The file
// may be opened with O_PATH. The argument mode has the format of stat(2).
func Chmod(fd int, mode uint32) error {
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), fileMode(mode))
}

// mountID returns the ID of the mount on which an open file is. mountinfo contains the same ID.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	// Linux before 5.8 does not return the mount ID in statx.
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(id), 10, 64)
		}
	}
	return 0, fmt.Errorf("no mount ID of descriptor %d: is /proc mounted?", fd)
}

// fileMode converts the mode bits of a stat. It includes setuid, setgid and sticky.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

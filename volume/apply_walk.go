package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errCrossesMount says that a directory is on another mount than its parent.
var errCrossesMount = errors.New("it is on another mount")

// openSubdir opens a directory of a directory. It follows no symlink (ELOOP or
// ENOTDIR) and enters no other mount, a bind mount of the same file system
// neither (errCrossesMount). The caller closes the descriptor.
func openSubdir(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	here, err := mountID(dir)
	if err == nil {
		var there uint64
		if there, err = mountID(fd); err == nil && here != there {
			err = errCrossesMount
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mountID is the ID of the mount that an open file is on, as in mountinfo.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	// Before Linux 5.8.
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

// fileMode converts the permission bits of a stat, setgid and its kin included.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

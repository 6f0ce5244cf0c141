package volume

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/safepath"
)

// groupBits are the mode bits that fsGroup adds (pkg/volume/volume_linux.go). They allow the group
// to read and write files and to enter directories, and make the group the owner of new files.
type groupBits struct{ file, dir uint32 }

var (
	readWriteBits = groupBits{0o660, 0o2770}
	readOnlyBits  = groupBits{0o440, 0o2550} // for volumes that podrun always mounts read-only
)

// giveToGroup changes the group of a volume and all files in it. It does not follow symlinks or
// enter mounts inside the volume. With OnRootMismatch, it does nothing if the volume's root
// directory already has the right group and mode. It stops when ctx ends.
func giveToGroup(ctx context.Context, path string, gid int64, policy corev1.PodFSGroupChangePolicy) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if policy == corev1.FSGroupChangeOnRootMismatch && isGroups(fd, gid) {
		return nil
	}
	if err := giveTree(ctx, fd, int(gid), readWriteBits); err != nil {
		return fmt.Errorf("change the group of %s to %d: %w", path, gid, err)
	}
	return nil
}

func isGroups(fd int, gid int64) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && int64(st.Gid) == gid && st.Mode&readWriteBits.dir == readWriteBits.dir
}

// giveTree changes the content of a directory before the directory itself, so that the check for
// OnRootMismatch succeeds only after all files have been changed.
func giveTree(ctx context.Context, dir int, gid int, bits groupBits) error {
	return safepath.Walk(ctx, dir, safepath.Visitor{
		File: func(dir int, name string) error {
			fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return giveFile(fd, gid, bits.file)
		},
		Leave: func(dir int) error { return giveFile(dir, gid, bits.dir) },
	})
}

// giveFile changes a file that is open. The file may have been opened with O_PATH. For a
// symlink, it changes only the group, because the mode of a symlink has no effect.
func giveFile(fd int, gid int, bits uint32) error {
	if err := unix.Fchownat(fd, "", -1, gid, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	return safepath.Chmod(fd, st.Mode|bits)
}

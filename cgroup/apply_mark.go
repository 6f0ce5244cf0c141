package cgroup

import (
	"os"

	"golang.org/x/sys/unix"
)

// markName is the attribute on the groups that podrun made. It goes with the
// group, so it never lies; systemd marks its groups the same way
// (trusted.invocation_id).
const markName = "trusted.podrun"

// mark notes that podrun made a group. A kernel that can't keep the note
// (cgroup v1 before 3.7) makes the group stay when it is empty.
func mark(dir string) error {
	err := unix.Setxattr(dir, markName, []byte("1"), 0)
	if err == nil || err == unix.ENOTSUP {
		return nil
	}
	return &os.PathError{Op: "setxattr", Path: dir, Err: err}
}

// marked tells whether podrun made a group.
func marked(dir string) bool {
	_, err := unix.Getxattr(dir, markName, nil)
	return err == nil
}

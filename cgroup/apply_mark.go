package cgroup

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// markName is the attribute on the groups that podrun made. It goes with the
// group, so it never lies; systemd marks its groups the same way
// (trusted.invocation_id).
const markName = "trusted.podrun"

// mark notes that podrun made a group, and how many milli-CPUs the pod
// requests whose group it is. Where it cannot be kept (in a user namespace, or
// on cgroup v1 before Linux 3.14), a shared group stays when it is empty.
func mark(dir string, milli int64) error {
	err := unix.Setxattr(dir, markName, []byte(strconv.FormatInt(milli, 10)), 0)
	if err == nil || err == unix.ENOTSUP || err == unix.EPERM {
		return nil
	}
	return &os.PathError{Op: "setxattr", Path: dir, Err: err}
}

// marked reports whether podrun made a group.
func marked(dir string) bool {
	_, err := unix.Getxattr(dir, markName, nil)
	return err == nil
}

// noted reads the milli-CPUs of a pod's group.
func noted(dir string) (int64, bool) {
	buf := make([]byte, 32)
	n, err := unix.Getxattr(dir, markName, buf)
	if err != nil {
		return 0, false
	}
	milli, err := strconv.ParseInt(string(buf[:n]), 10, 64)
	return milli, err == nil
}

package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
)

// HintFor returns the hint of an error. If the error has none, it returns a hint for the system
// error that the error wraps. It returns "" if there is no hint for either.
func HintFor(err error) string {
	// The error of a program in a container (Failed) is about the container's files and
	// permissions, not this host's.
	if e, ok := errors.AsType[*problem.Error](err); ok && (e.Hint != "" || len(e.Problems) > 0 || e.Kind == problem.Failed) {
		return e.Hint
	}
	path := ""
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path = e.Path
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		path = e.New
	}
	hint := SystemHint(err, path, IsOutOfInodes, os.Geteuid() == 0)
	if rootless.User() && (hint == runAsRoot || hint == rootLacks) {
		// Neither is true for an ordinary user: inside the user namespace, podrun is root of this namespace only.
		return fmt.Sprintf(userLacks, rootless.UserName())
	}
	return hint
}

// The hints for a lack of permission.
const (
	runAsRoot = "run as root"
	rootLacks = "root lacks a permission: possible causes are a container without capabilities, SELinux, AppArmor or a network file system; run 'podrun doctor' to check the host"
	userLacks = "user %s lacks a permission: check the owner and the mode of the file; some features of pods require sudo (see docs/rootless.md)"
)

// systemErrors lists system errors, each with its fix. A runtime may report the same errors as
// text. systemHint replaces "%s" with the path, or with "this host".
var systemErrors = []struct {
	errno syscall.Errno
	fix   string
}{
	{unix.ENOSPC, "the disk is full: free space on the file system of %s ('podrun image prune --all' removes unused images), or move podrun's data with --root-dir"},
	{unix.EDQUOT, "the disk quota is used up: increase it, or free space on the file system of %s"},
	{unix.EROFS, "the file system of %s is mounted read-only: remount it, or move podrun's data with --root-dir"},
	{unix.EMFILE, "increase the limit of open files (ulimit -n, or LimitNOFILE in the unit)"},
	{unix.ENOMEM, "free memory on this host"},
}

// inodesHint is the hint for ENOSPC if the file system has no free inodes.
const inodesHint = "the file system of %s has no free inodes ('df -i'): remove small files there, or move podrun's data with --root-dir"

// outputHint is the hint for a failed write to stdout or stderr, which are not podrun's files.
const outputHint = "the file or device that receives podrun's output is full: free space there, or redirect the output elsewhere"

// SystemHint returns the hint for a system error about path, which may be empty. The function
// noInodes reports whether the file system of a path has no free inodes.
func SystemHint(err error, path string, noInodes func(string) bool, root bool) string {
	where := path
	if where == "" {
		where = "this host"
	}
	for _, s := range systemErrors {
		if !hasErrno(err, s.errno) {
			continue
		}
		if path == os.Stdout.Name() || path == os.Stderr.Name() {
			return outputHint
		}
		fix := s.fix
		if s.errno == unix.ENOSPC && path != "" && noInodes(path) {
			fix = inodesHint
		}
		return strings.ReplaceAll(fix, "%s", where)
	}
	switch {
	case !hasErrno(err, unix.EPERM) && !hasErrno(err, unix.EACCES):
		return ""
	case !root:
		return runAsRoot
	}
	return rootLacks
}

// hasErrno reports whether err wraps errno, or is an error of a runtime whose message ends with
// errno's text.
func hasErrno(err error, errno syscall.Errno) bool {
	return errors.Is(err, errno) || strings.HasSuffix(strings.TrimSpace(err.Error()), ": "+errno.Error())
}

// IsOutOfInodes reports whether the file system of a path, or of its nearest existing parent
// directory, has a lower percentage of free inodes than of free blocks. It does not check for
// 0 free inodes, because podrun may have removed its files by the time it prints the error. A
// file system without a fixed number of inodes reports a total of 0.
func IsOutOfInodes(path string) bool {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if err == nil {
			return st.Files > 0 && st.Blocks > 0 && float64(st.Ffree)/float64(st.Files) < float64(st.Bavail)/float64(st.Blocks)
		}
		above := filepath.Dir(path)
		if !errors.Is(err, unix.ENOENT) || above == path {
			return false
		}
		path = above
	}
}

package cgroup

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The attributes on the groups that podrun made. They go with the group, so they never lie;
// systemd marks its groups the same way (trusted.invocation_id).
const (
	// markName holds the milli-CPUs that the pod requests whose group it is; 0 on others.
	markName = "trusted.podrun"
	// rootMarkName, on groups of pods, holds the root directory of the podrun that made it,
	// as in the sandbox's annotation podrun.dev/root-dir. It is an attribute of its own,
	// since other releases of podrun read a number from markName. They do not set it.
	rootMarkName = "trusted.podrun.root-dir"
)

// noteOf is what the attributes of a group hold.
type noteOf struct {
	milli   int64
	rootDir string // empty: none
}

// mark notes that podrun made a group. Where it cannot be kept (in a user namespace, or
// on cgroup v1 before Linux 3.14), a shared group stays when it is empty. The root directory
// comes first: a group without markName counts as not marked yet.
func mark(dir string, note noteOf) error {
	if note.rootDir != "" {
		if err := setMark(dir, rootMarkName, note.rootDir); err != nil {
			return err
		}
	}
	return setMark(dir, markName, strconv.FormatInt(note.milli, 10))
}

func setMark(dir, name, value string) error {
	err := unix.Setxattr(dir, name, []byte(value), 0)
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

// rootDirOf reads the root directory of the podrun that made a pod's group; empty if there
// is no such group, if its mark names none, or if the file system keeps no marks.
func rootDirOf(dir string) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(dir, rootMarkName, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// ownerOf is the root directory that the marks of a group name; empty for none.
func (p Plan) ownerOf(g Group) string {
	for _, dir := range p.dirs(g) {
		if root := rootDirOf(dir); root != "" {
			return root
		}
	}
	return ""
}

// foreign reports whether a podrun with another root directory made a group.
func (p Plan) foreign(g Group) bool {
	owner := p.ownerOf(g)
	return owner != "" && p.RootDir != "" && owner != p.RootDir
}

// noteFor is what to note on a directory that was made for a group: outer ones request
// nothing themselves, and belong to no root directory.
func (p Plan) noteFor(g Group, dir string) noteOf {
	if !strings.HasSuffix(dir, g.Path) || !isPod(g) {
		return noteOf{}
	}
	return noteOf{milli: g.MilliCPU, rootDir: p.RootDir}
}

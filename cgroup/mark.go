package cgroup

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/rootless"
)

// The extended attributes that identify podrun's groups. The kernel removes them with the group, so they are never
// outdated. systemd also uses such an attribute (trusted.invocation_id).
var (
	// markName is the attribute with the milli-CPUs that the pod requests; 0 if the group does not
	// belong to a pod.
	markName = attribute("podrun", rootless.User())
	// rootMarkName is the attribute with podrun's root directory, like the sandbox annotation
	// podrun.dev/root-dir. Only groups of pods have it. It is a separate attribute because older
	// versions of podrun, which do not set rootMarkName, read a number from markName.
	rootMarkName = attribute("podrun.root-dir", rootless.User())
)

// attribute returns the full name of an attribute. In a user namespace, the kernel refuses those of root; cgroup v2 has
// those of users since Linux 5.7.
func attribute(name string, user bool) string {
	if user {
		return "user." + name
	}
	return "trusted." + name
}

// markValues are the values of a group's attributes.
type markValues struct {
	milli   int64
	rootDir string // empty if the group has no such attribute
}

// mark sets the attributes that show that podrun created a group. If attributes are not supported
// (on cgroup v1 before Linux 3.14, or those of users before Linux 5.7), podrun does not remove the shared
// groups when they become empty. mark sets rootMarkName first, because a group without markName
// counts as one without attributes.
func mark(dir string, note markValues) error {
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

// marked reports whether podrun created a group.
func marked(dir string) bool {
	_, err := unix.Getxattr(dir, markName, nil)
	return err == nil
}

// unmarked reports whether a group exists and has no attribute of podrun.
func unmarked(dir string) bool {
	_, err := unix.Getxattr(dir, markName, nil)
	return err == unix.ENODATA || err == unix.ENOTSUP
}

// recordedMilliCPU returns the milli-CPUs that are recorded on a pod's group, and reports whether a
// number is recorded.
func recordedMilliCPU(dir string) (int64, bool) {
	buf := make([]byte, 32)
	n, err := unix.Getxattr(dir, markName, buf)
	if err != nil {
		return 0, false
	}
	milli, err := strconv.ParseInt(string(buf[:n]), 10, 64)
	return milli, err == nil
}

// rootDirOf returns the root directory that is recorded on a pod's group. It returns "" if the group or the attribute
// does not exist, or if the file system does not support extended attributes.
func rootDirOf(dir string) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(dir, rootMarkName, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// ownerOf returns the root directory that is recorded on a group. It returns "" if none is
// recorded.
func (p Plan) ownerOf(g Group) string {
	for _, dir := range p.hierarchies().dirs(g) {
		if root := rootDirOf(dir); root != "" {
			return root
		}
	}
	return ""
}

// foreign reports whether a podrun process with another root directory created a group.
func (p Plan) foreign(g Group) bool {
	owner := p.ownerOf(g)
	return owner != "" && p.RootDir != "" && owner != p.RootDir
}

// noteFor returns the attributes for a directory that was created for a group. The parents of the
// group have no requests, and belong to no root directory.
func (p Plan) noteFor(g Group, dir string) markValues {
	if !strings.HasSuffix(dir, g.Path) || !isPod(g) {
		return markValues{}
	}
	return markValues{milli: g.MilliCPU, rootDir: p.RootDir}
}

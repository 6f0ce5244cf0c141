package safepath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// MountsOf lists the mounts, in this process's mount namespace, of an open directory or of
// anything in it: bind mounts elsewhere, with the mount of the directory itself if it is a
// mount point.
func MountsOf(dir int) ([]*mountinfo.Info, error) {
	id, err := mountID(dir)
	if err != nil {
		return nil, err
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir))
	if err != nil {
		return nil, err
	}
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	for _, on := range mounts {
		if uint64(on.ID) != id {
			continue
		}
		below, err := filepath.Rel(on.Mountpoint, path)
		if err != nil {
			return nil, err
		}
		return mountsOf(mounts, on, filepath.Join(on.Root, below)), nil
	}
	return nil, fmt.Errorf("the mount of %s is not in mountinfo", path)
}

// mountsOf keeps the mounts of a path, or of what is in it, of the file system of on.
func mountsOf(mounts []*mountinfo.Info, on *mountinfo.Info, path string) []*mountinfo.Info {
	var out []*mountinfo.Info
	for _, m := range mounts {
		if m.Major == on.Major && m.Minor == on.Minor && (m.Root == path || strings.HasPrefix(m.Root, strings.TrimSuffix(path, "/")+"/")) {
			out = append(out, m)
		}
	}
	return out
}

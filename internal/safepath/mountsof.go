package safepath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// MountsOf returns the mounts, in this process's mount namespace, of an open directory and of
// anything inside it. These are bind mounts at other paths and, if the directory is a mount point,
// its own mount.
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

// mountsOf returns the mounts of the file system to which on belongs, if their source is path
// or inside path.
func mountsOf(mounts []*mountinfo.Info, on *mountinfo.Info, path string) []*mountinfo.Info {
	var out []*mountinfo.Info
	for _, m := range mounts {
		if m.Major == on.Major && m.Minor == on.Minor && (m.Root == path || strings.HasPrefix(m.Root, strings.TrimSuffix(path, "/")+"/")) {
			out = append(out, m)
		}
	}
	return out
}

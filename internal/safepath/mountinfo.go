package safepath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mounts returns the mounts in this process's mount namespace, in the kernel's order. If several
// mounts have the same mount point, the last of them is on top.
func Mounts() ([]*mountinfo.Info, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMounts(string(data)), nil
}

// parseMounts parses mountinfo's text (proc_pid_mountinfo(5)). If the library cannot parse one
// line, it rejects the whole text. parseMounts skips such a line instead, because another program's
// mount must not prevent the removal of a pod. The result does not contain the skipped mount, but a
// deletion stops at this mount too.
func parseMounts(text string) []*mountinfo.Info {
	all, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
	if err == nil {
		return all
	}
	all = nil
	for line := range strings.Lines(text) {
		if one, err := mountinfo.GetMountsFromReader(strings.NewReader(line), nil); err == nil {
			all = append(all, one...)
		}
	}
	return all
}

// below returns the mounts at dir or anywhere below it. It keeps their order.
func below(mounts []*mountinfo.Info, dir string) []*mountinfo.Info {
	var out []*mountinfo.Info
	for _, m := range mounts {
		if m.Mountpoint == dir || strings.HasPrefix(m.Mountpoint, dir+"/") {
			out = append(out, m)
		}
	}
	return out
}

// IsMountPoint reports whether something is mounted at path. This includes a bind mount of the same
// file system. It returns false if path does not exist or is a symlink. It returns when the context
// ends. It does not use mountinfo.Mounted, because that function follows symlinks.
func IsMountPoint(ctx context.Context, path string) (bool, error) {
	return Await(ctx, path, func() (bool, error) { return mountedAt(path) })
}

func mountedAt(path string) (bool, error) {
	self, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(self)
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the directory of %s: %w", path, err)
	}
	defer unix.Close(parent)
	a, err := mountID(self)
	if err != nil {
		return false, err
	}
	b, err := mountID(parent)
	return a != b, err
}

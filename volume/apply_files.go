package volume

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Make makes the volume, or brings its files up to date.
func (f *Files) Make(ctx context.Context, v Volume) error {
	if err := f.mount(ctx, v.HostPath); err != nil {
		return err
	}
	fd, err := unix.Open(v.HostPath, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", v.HostPath, err)
	}
	defer unix.Close(fd)
	for _, at := range f.Nested {
		dir, err := makeDirs(fd, at)
		if err != nil {
			return fmt.Errorf("make the mount point %s: %w", at, err)
		}
		unix.Close(dir)
	}
	return (&publisher{ctx: ctx, dir: fd, files: f.Files, gid: v.FSGroup}).publish()
}

// mount mounts the tmpfs, once.
func (f *Files) mount(ctx context.Context, at string) error {
	if mounted, err := isMountPoint(ctx, at); mounted || err != nil {
		return err
	}
	if err := makeDir(filepath.Dir(at), openMode); err != nil {
		return err
	}
	if err := makeDir(at, volumeMode); err != nil {
		return err
	}
	return (&EmptyDir{Medium: corev1.StorageMediumMemory, SizeBytes: f.SizeBytes}).mount(at)
}

// Refresh brings the volumes of a plan up to date whose files podrun writes,
// while containers use them.
func Refresh(ctx context.Context, p Plan) error {
	only := p
	only.Volumes = nil
	for _, v := range p.Volumes {
		if _, ok := v.Make.(*Files); ok {
			only.Volumes = append(only.Volumes, v)
		}
	}
	return Apply(ctx, only)
}

// makeDirs makes the missing directories of a relative path below dir, mode
// 0755, and opens the last. It follows no symlink.
func makeDirs(dir int, at string) (int, error) {
	current, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(at, "/") {
		next, err := makeDirAt(current, name)
		unix.Close(current)
		if err != nil {
			return -1, err
		}
		current = next
	}
	return current, nil
}

// makeDirAt makes a directory, mode 0755 whatever the umask, unless it is there,
// and opens it.
func makeDirAt(dir int, name string) (int, error) {
	made := unix.Mkdirat(dir, name, 0o755)
	if made != nil && made != unix.EEXIST {
		return -1, made
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil && made == nil {
		if err = unix.Fchmod(fd, 0o755); err != nil {
			unix.Close(fd)
		}
	}
	return fd, err
}

// tops are the first names of the files' paths, sorted.
func tops(files []File) []string {
	names := map[string]bool{}
	for _, f := range files {
		top, _, _ := strings.Cut(f.Path, "/")
		names[top] = true
	}
	return slices.Sorted(maps.Keys(names))
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/safepath"
)

// volumeMode allows all users in the pod to write to an emptyDir.
const volumeMode = 0o777

// makeEmptyDir creates the directory or the mount. It does not change a volume that is ready,
// because containers may be using the volume.
func makeEmptyDir(ctx context.Context, v Volume, e *EmptyDir) error {
	mounted, err := safepath.IsMountPoint(ctx, v.HostPath)
	if err != nil {
		return err
	}
	if isReady(e) && (e.Medium == corev1.StorageMediumDefault && hostfile.IsDir(v.HostPath) || mounted) {
		return nil
	}
	if err := safepath.MakeDir(filepath.Dir(v.HostPath), openMode); err != nil {
		return err
	}
	if err := safepath.MakeDir(v.HostPath, volumeMode); err != nil {
		return err
	}
	if e.Medium != corev1.StorageMediumDefault && !mounted {
		if err := mountEmptyDir(e, v.HostPath); err != nil {
			return err
		}
	}
	if v.FSGroup != nil {
		if err := giveToGroup(ctx, v.HostPath, *v.FSGroup, v.FSGroupPolicy); err != nil {
			return err
		}
	}
	return setReady(e)
}

func mountEmptyDir(e *EmptyDir, path string) error {
	if e.PageSize != "" {
		if err := unix.Mount("nodev", path, "hugetlbfs", 0, "pagesize="+mountSize(e.PageSize)); err != nil {
			return fmt.Errorf("mount hugetlbfs with pages of %s: %w", e.PageSize, err)
		}
		return nil
	}
	return MountTmpfs(path, e.SizeBytes, 0)
}

// MountTmpfs mounts a tmpfs. Its maximum size is size bytes or, if size is 0, the kernel's default.
// It disables swapping if the kernel supports that. The argument flags contains flags of mount(2).
func MountTmpfs(path string, size int64, flags uintptr) error {
	var options string
	if size > 0 {
		options = fmt.Sprintf("size=%d,", size)
	}
	// Linux supports noswap since 6.4; older kernels return EINVAL.
	err := unix.Mount("tmpfs", path, "tmpfs", flags, options+"noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", flags, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs of %d bytes: %w", size, err)
	}
	return nil
}

// mountSize converts a quantity such as 2Mi to the kernel's notation, 2M.
func mountSize(quantity string) string {
	if n := len(quantity); n > 1 && quantity[n-1] == 'i' {
		return quantity[:n-1]
	}
	return quantity
}

func readyFile(e *EmptyDir) string { return filepath.Join(e.MetaDir, "ready") }

func isReady(e *EmptyDir) bool {
	_, err := os.Lstat(readyFile(e))
	return err == nil
}

// setReady marks the volume as complete. It does not sync the file, because makeEmptyDir only
// repeats its work if a crash destroys the file.
func setReady(e *EmptyDir) error {
	for _, dir := range []string{filepath.Dir(e.MetaDir), e.MetaDir} {
		if err := safepath.MakeDir(dir, dirMode); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(readyFile(e), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(0o644)
}

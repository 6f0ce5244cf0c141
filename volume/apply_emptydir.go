package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/volume/safepath"
)

const volumeMode = 0o777 // anybody in the pod may write to an emptyDir

// Make makes the directory or the mount. A volume that is ready is left alone:
// containers may be using it.
func (e *EmptyDir) Make(ctx context.Context, v Volume) error {
	mounted, err := safepath.IsMountPoint(ctx, v.HostPath)
	if err != nil {
		return err
	}
	if e.ready() && (e.Medium == corev1.StorageMediumDefault && isDir(v.HostPath) || mounted) {
		return nil
	}
	if err := safepath.MakeDir(filepath.Dir(v.HostPath), openMode); err != nil {
		return err
	}
	if err := safepath.MakeDir(v.HostPath, volumeMode); err != nil {
		return err
	}
	if e.Medium != corev1.StorageMediumDefault && !mounted {
		if err := e.mount(v.HostPath); err != nil {
			return err
		}
	}
	if v.FSGroup != nil {
		if err := giveToGroup(ctx, v.HostPath, *v.FSGroup, v.FSGroupPolicy); err != nil {
			return err
		}
	}
	return e.setReady()
}

func (e *EmptyDir) mount(path string) error {
	if e.PageSize != "" {
		if err := unix.Mount("nodev", path, "hugetlbfs", 0, "pagesize="+mountSize(e.PageSize)); err != nil {
			return fmt.Errorf("mount hugetlbfs with pages of %s: %w", e.PageSize, err)
		}
		return nil
	}
	var options string
	if e.SizeBytes > 0 {
		options = fmt.Sprintf("size=%d,", e.SizeBytes)
	}
	// noswap is known since Linux 6.4; an older kernel answers EINVAL.
	err := unix.Mount("tmpfs", path, "tmpfs", 0, options+"noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs of %d bytes: %w", e.SizeBytes, err)
	}
	return nil
}

// mountSize writes a quantity such as 2Mi in the kernel's way, 2M.
func mountSize(quantity string) string {
	if n := len(quantity); n > 1 && quantity[n-1] == 'i' {
		return quantity[:n-1]
	}
	return quantity
}

func (e *EmptyDir) readyFile() string { return filepath.Join(e.MetaDir, "ready") }

func (e *EmptyDir) ready() bool {
	_, err := os.Lstat(e.readyFile())
	return err == nil
}

// setReady needs no sync: a ready file lost in a crash costs only a second look.
func (e *EmptyDir) setReady() error {
	for _, dir := range []string{filepath.Dir(e.MetaDir), e.MetaDir} {
		if err := safepath.MakeDir(dir, dirMode); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(e.readyFile(), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(0o644)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

package volume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
)

// MountSubpath bind-mounts a path inside a volume at target. If an earlier run of the container
// left a mount at target, MountSubpath removes the mount first, because subpath may now resolve to
// another file. The errors are those of safepath.OpenSubpath and mount(2).
func MountSubpath(ctx context.Context, volume, subpath, target string) error {
	source, err := safepath.OpenSubpath(ctx, volume, subpath)
	if err != nil {
		return err
	}
	defer source.Close()
	err = unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return safepath.Bind(source, target)
}

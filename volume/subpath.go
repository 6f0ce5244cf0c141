package volume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
)

// MountSubpath binds a path inside a volume at target. It first removes a mount that an earlier run
// of the container left at target, because subpath may now resolve to another file. The errors are
// those of safepath.OpenSubpath and mount(2).
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

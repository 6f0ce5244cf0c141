package safepath

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// These constants are the number of attempts to unmount a busy mount, and the interval between
// them. A container's mounts disappear shortly after its process has exited.
const (
	busyTries = 20
	busyPause = 50 * time.Millisecond
)

// UnmountBelow unmounts everything at or below dir, the newest mount first. The argument root is an
// open descriptor of base, which is an ancestor of dir. Both are real paths, as in mountinfo. If a
// mount is busy for a second, UnmountBelow returns EBUSY. It never detaches a mount lazily, because
// a process that uses the mount could then still write while the directory is deleted.
func UnmountBelow(ctx context.Context, root int, base, dir string) error {
	for try := 0; ; try++ {
		left, err := unmountOnce(ctx, root, base, dir)
		if err != nil || left == nil {
			return err
		}
		if !errors.Is(left, unix.EBUSY) || try == busyTries {
			return left
		}
		// The pause is in the kernel, because the simulated time of a testing/synctest test must not advance: the
		// process that uses the mount, such as one between fork and exec, may be outside of the test's bubble.
		interval := unix.NsecToTimespec(busyPause.Nanoseconds())
		_ = unix.Nanosleep(&interval, nil) // a signal only shortens the pause
		if ctx.Err() != nil {
			return errors.Join(left, context.Cause(ctx))
		}
	}
}

// unmountOnce unmounts as many mounts as possible. One mount may hide another, so it reads the list of
// mounts again after each success. It ends when no mount remains, or when it cannot unmount any of the
// remaining ones; the result left is then the reason.
func unmountOnce(ctx context.Context, root int, base, dir string) (left, err error) {
	for {
		all, err := Mounts()
		if err != nil {
			return nil, err
		}
		mounts := below(all, dir)
		if len(mounts) == 0 {
			return nil, nil
		}
		var failures []error
		for i := len(mounts) - 1; i >= 0; i-- {
			if err := unmount(ctx, root, base, mounts[i].Mountpoint); err != nil {
				failures = append(failures, unmountError(mounts[i], err))
			}
		}
		if len(failures) == len(mounts) {
			return errors.Join(failures...), nil
		}
	}
}

func unmountError(m *mountinfo.Info, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("unmount %s (%s): %w: stop the processes that use it (fuser -m %s) and delete the pod again", m.Mountpoint, m.FSType, err, m.Mountpoint)
	}
	return fmt.Errorf("unmount %s (%s): %w", m.Mountpoint, m.FSType, err)
}

// unmount unmounts one mount point below base. It opens the parent directory without following
// symlinks, and uses this descriptor to name the mount. Otherwise a container could replace a
// directory with a symlink, and podrun would unmount a mount of the host. It does not open the
// mount itself, because that would keep the mount busy.
func unmount(ctx context.Context, root int, base, point string) error {
	rel, err := filepath.Rel(base, point)
	if err != nil {
		return err
	}
	parent, err := openBeneath(root, filepath.Dir(rel))
	if err != nil {
		return err
	}
	_, err = Await(ctx, point, func() (struct{}, error) {
		defer unix.Close(parent)
		return struct{}{}, unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", parent, filepath.Base(rel)), unix.UMOUNT_NOFOLLOW)
	})
	return err
}

// openBeneath opens a directory below another. It follows no symlinks, but it does enter
// mounts.
func openBeneath(root int, rel string) (int, error) {
	dir, err := unix.Openat(root, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, name := range strings.Split(rel, "/") {
		if name == "." {
			continue
		}
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
		if err != nil {
			return -1, fmt.Errorf("open %s: %w", name, err)
		}
		dir = next
	}
	return dir, nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/safepath"
)

// Remove removes all mounts below the pod's directory and deletes the directory. It requires no
// plan, and can be repeated. It succeeds if the directory does not exist. It never follows
// symlinks, never deletes through a mount (kubernetes/kubernetes#72257), and never deletes the
// content of a hostPath. If a mount is busy, it deletes nothing.
func Remove(ctx context.Context, layout identity.Layout, uid string) error {
	return remove(ctx, layout, uid, func(pods int) error { return removePodDir(ctx, pods, uid) })
}

// Unmount removes all mounts below the pod's directory. It can be repeated.
func Unmount(ctx context.Context, layout identity.Layout, uid string) error {
	return remove(ctx, layout, uid, func(int) error { return nil })
}

// RemoveForRecreate is Remove for a pod that podrun will recreate. It keeps the directory, the checkpoint, and
// the files that reserve resources for the pod (a range of user IDs, devices).
func RemoveForRecreate(ctx context.Context, layout identity.Layout, uid string) error {
	keep := []string{checkpointName, filepath.Base(layout.Pod(uid).UserNS()), filepath.Base(layout.Pod(uid).Devices())}
	return remove(ctx, layout, uid, func(pods int) error { return clearPodDir(ctx, pods, uid, keep...) })
}

// RemoveData is Remove for only the volumes, the subPaths and the termination logs of a stopped pod. It keeps the
// pod's directory and the files that podrun needs to resume the removal.
func RemoveData(ctx context.Context, layout identity.Layout, uid string) error {
	return remove(ctx, layout, uid, func(pods int) error {
		dir, err := safepath.OpenSubdir(pods, uid)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("open it: %w", err)
		}
		defer unix.Close(dir)
		for _, path := range []string{layout.Pod(uid).Volumes(), layout.Pod(uid).Subpaths(), layout.Pod(uid).Containers()} {
			if err := safepath.Remove(ctx, dir, filepath.Base(path)); err != nil {
				return err
			}
		}
		return nil
	})
}

func remove(ctx context.Context, layout identity.Layout, uid string, do func(pods int) error) error {
	if !identity.SafeUID(uid) {
		return fmt.Errorf("remove pod %q: its UID is not safe in a path", uid)
	}
	if err := unmounted(ctx, layout, uid, do); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "pod " + uid, Op: "remove its directory", Err: err,
			Hint: "remaining files: " + string(layout.Pod(uid))}
	}
	return nil
}

// unmounted removes all mounts below a pod's directory, and then calls do with the directory of all
// pods. If the pod's directory does not exist, it does nothing.
func unmounted(ctx context.Context, layout identity.Layout, uid string, do func(pods int) error) error {
	pods, err := unix.Open(layout.PodsDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", layout.PodsDir(), err)
	}
	defer unix.Close(pods)
	// mountinfo contains resolved paths, but the path of the root directory may contain symlinks.
	real, err := filepath.EvalSymlinks(layout.PodsDir())
	if err != nil {
		return err
	}
	if err := safepath.UnmountBelow(ctx, pods, real, filepath.Join(real, uid)); err != nil {
		return err
	}
	return do(pods)
}

// removePodDir deletes the pod's directory. It deletes the checkpoint last, so that podrun can find
// the pod and repeat the removal if it is interrupted.
func removePodDir(ctx context.Context, pods int, uid string) error {
	if err := clearPodDir(ctx, pods, uid, checkpointName); err != nil {
		return err
	}
	if err := clearPodDir(ctx, pods, uid); err != nil {
		return err
	}
	if err := unix.Unlinkat(pods, uid, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// clearPodDir deletes the content of the pod's directory, except the files in keep.
func clearPodDir(ctx context.Context, pods int, uid string, keep ...string) error {
	dir, err := safepath.OpenSubdir(pods, uid)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open it: %w", err)
	}
	defer unix.Close(dir)
	return safepath.Clear(ctx, dir, keep...)
}

// checkpointName is the base name of identity.PodDir.Checkpoint.
const checkpointName = "pod.yaml"

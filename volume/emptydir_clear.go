package volume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/safepath"
)

// RemoveContents unmounts all volumes of a pod that has ended permanently. To reclaim disk space,
// it also deletes the content of the pod's emptyDirs, as the kubelet does for an evicted pod. It
// keeps the pod's directory. It can be repeated. It is as safe as Remove.
func RemoveContents(ctx context.Context, layout identity.Layout, uid string) error {
	if !identity.SafeUID(uid) {
		return fmt.Errorf("clear pod %q: its UID is not safe in a path", uid)
	}
	err := unmounted(ctx, layout, uid, func(pods int) error { return clearEmptyDirs(ctx, pods, uid) })
	if err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "pod " + uid, Op: "clear its volumes", Err: err,
			Hint: "remaining files: " + layout.Pod(uid).Volumes()}
	}
	return nil
}

func clearEmptyDirs(ctx context.Context, pods int, uid string) error {
	dir := pods
	for _, name := range []string{uid, "volumes", emptyDirPlugin} {
		next, err := safepath.OpenSubdir(dir, name)
		if dir != pods {
			unix.Close(dir)
		}
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
		dir = next
	}
	defer unix.Close(dir)
	return safepath.Clear(ctx, dir)
}

// EmptyDirPath returns the directory of a pod's emptyDir.
func EmptyDirPath(layout identity.Layout, uid, name string) string {
	return layout.Pod(uid).Volume(emptyDirPlugin, name)
}

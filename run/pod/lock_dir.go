package pod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/run/store"
)

// LockDir locks the pod's directory. A command that no longer owns the pod may still be
// creating its volumes without the pod's lock, but it will end soon.
func (p *Pod) LockDir(ctx context.Context) (*store.FileLock, error) {
	path := string(p.Plan.Layout.Pod(p.Plan.ID.UID))
	l, err := store.AwaitLock(ctx, path, nil, func() (*store.FileLock, error) {
		f, err := store.FlockFile(path, unix.O_RDONLY|unix.O_DIRECTORY)
		if f == nil || err != nil {
			return nil, err
		}
		return &store.FileLock{File: f}, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: wait for its volumes to be mounted: %w", p.Plan.ID, err)
	}
	return l, nil
}

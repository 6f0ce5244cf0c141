package cgroup

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// lockWithin is how long a removal, or a change of weights, waits for the lock.
const lockWithin = 30 * time.Second

// lockShared keeps other podruns off the groups that pods share. The node's lock
// does so only among those of one root directory; this one is on the hierarchy
// itself, and goes with the process.
func (p Plan) lockShared(ctx context.Context) (unlock func(), err error) {
	mount := p.cpuMount()
	for _, other := range slices.Sorted(maps.Values(p.Mounts)) {
		if mount == "" {
			mount = other
		}
	}
	if mount == "" {
		return func() {}, nil // nothing that could be shared
	}
	dir, err := os.Open(mount)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- flock(int(dir.Fd())) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		go func() { <-locked; _ = dir.Close() }()
		return nil, fmt.Errorf("wait for another podrun to change the cgroups that pods share: %w", ctx.Err())
	}
	if err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("lock %s: %w", mount, err)
	}
	return func() { _ = dir.Close() }, nil // which unlocks it
}

// lockSharedInTime is lockShared for what has no context: it waits for lockWithin.
func (p Plan) lockSharedInTime() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockWithin)
	defer cancel()
	return p.lockShared(ctx)
}

func flock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

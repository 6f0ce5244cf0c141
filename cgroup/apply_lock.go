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

// underLock does something to the groups that pods share, if there are any, for
// callers without a context: it waits for the lock for lockWithin.
func (p Plan) underLock(op string, do func() error) error {
	if len(p.Shared) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWithin)
	defer cancel()
	unlock, err := p.lockShared(ctx)
	if err != nil {
		return failed(p.Shared[0], op, err)
	}
	defer unlock()
	return do()
}

func flock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

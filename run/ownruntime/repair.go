package ownruntime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// imageRepair repairs the sandbox image, and the images of archives, when a sandbox could not be created or
// an image could not be used.
type imageRepair struct {
	runtime *Runtime
	mu      sync.Mutex
	last    time.Time // the end of the last repair
}

// ImageRepair returns the function Node.RepairImages for the runtime with the endpoint; nil if this is not
// the embedded runtime, whose images belong to podrun.
func (r *Runtime) ImageRepair(endpoint string) func(ctx context.Context, since time.Time) bool {
	if endpoint != r.layout.Endpoint() {
		return nil
	}
	return (&imageRepair{runtime: r}).repair
}

// repair implements Node.RepairImages. Of the pods that start concurrently, the first one repairs the
// images for all.
func (i *imageRepair) repair(ctx context.Context, since time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last.After(since) {
		return true
	}
	sandbox, err := ownPause{i.runtime}.repair(ctx)
	archives, failed := reloadLost(ctx, i.runtime)
	if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
		i.runtime.Warn(problem.List{problem.WarningOf(err)})
	}
	if sandbox || archives {
		i.last = time.Now()
	}
	return sandbox || archives
}

// reloadLost loads archives again whose images have lost a blob. It reports whether it has loaded any.
func reloadLost(ctx context.Context, r *Runtime) (bool, error) {
	lost, err := findLost(ctx, r)
	if err != nil || len(lost) == 0 {
		return false, err
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	return true, r.loadDropped(ctx)
}

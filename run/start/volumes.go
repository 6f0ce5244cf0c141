package start

import (
	"cmp"
	"context"
	"errors"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/volume"
)

// Volumes creates a pod's directories and volumes.
type Volumes struct {
	pod   *pod.Pod
	lease *lease.Lease
	// made is true if the volumes existed when podrun last created them or a container.
	made bool
}

// ensure must be called before the creation of a container. It creates the volumes if one of them is
// missing: an earlier podrun process may have ended after it had created the sandbox, but before it
// created the volumes, or another program may have removed a volume.
func (v *Volumes) ensure(ctx context.Context) error {
	missing, err := v.missing(ctx)
	if err == nil && !missing {
		v.made = true
		return nil
	}
	v.made = false
	if err == nil {
		err = v.make(ctx)
		v.emitMountErrors(ctx, err)
	}
	v.made = err == nil
	return err
}

// missing reports whether a volume does not exist. A network file system may not respond, so missing
// looks at such volumes without the pod's lock.
func (v *Volumes) missing(ctx context.Context) (missing bool, err error) {
	if !v.pod.Plan.Volumes.Slow() {
		return volume.Missing(ctx, v.pod.Plan.Volumes)
	}
	lost := v.lease.Do(ctx, v.lease.Lost, func(ctx context.Context) error {
		missing, err = volume.Missing(ctx, v.pod.Plan.Volumes)
		return nil
	})
	return missing, cmp.Or(err, lost)
}

// emitMountErrors emits an event for each volume that podrun could not create. It emits no events if
// podrun canceled ctx.
func (v *Volumes) emitMountErrors(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	for _, e := range mountErrors(err) {
		v.pod.Emit(event.Warning, event.FailedMountVolume, "", e.Event())
	}
}

func mountErrors(err error) []*volume.MountError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*volume.MountError
		for _, e := range joined.Unwrap() {
			out = append(out, mountErrors(e)...)
		}
		return out
	}
	if e, ok := err.(*volume.MountError); ok {
		return []*volume.MountError{e}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return mountErrors(inner)
	}
	return nil
}

// make creates the pod's volumes. If the creation of a volume may take long, make creates it without
// the pod's lock. It then locks the pod's directory, so that no other command creates or removes
// volumes at the same time.
func (v *Volumes) make(ctx context.Context) error {
	if !v.pod.Plan.Volumes.Slow() {
		return volume.Apply(ctx, v.pod.Plan.Volumes)
	}
	if err := volume.MakePodDir(v.pod.Plan.Volumes); err != nil {
		return pod.InStep(v.pod.Plan.ID, "create its directories", err)
	}
	dir, err := v.pod.LockDir(ctx)
	if err != nil {
		return err
	}
	var failed error
	lost := v.lease.Do(ctx, v.lease.Lost, func(ctx context.Context) error {
		defer dir.Unlock()
		failed = volume.Apply(ctx, v.pod.Plan.Volumes)
		return nil
	})
	if lost == nil || ctx.Err() != nil && failed != nil {
		return failed
	}
	return lost
}

// Refresh updates the files that podrun writes into volumes while the pod's containers are running. It
// does nothing if the pod has no sandbox, because podrun creates the volumes with the sandbox.
func (v *Volumes) Refresh(ctx context.Context) error {
	if v.pod.Observed.Sandbox() == nil {
		return nil
	}
	err := volume.Refresh(ctx, v.pod.Plan.Volumes)
	if err != nil {
		v.emitMountErrors(ctx, err)
		if e, ok := errors.AsType[*problem.Error](err); ok {
			e.Op = "update volumes"
		}
	}
	return err
}

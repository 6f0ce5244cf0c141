package start

import (
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
	// made is true if the volumes exist, because this process has created them or a container of
	// the pod has been started.
	made bool
}

// ensure creates the volumes if an earlier podrun process ended after it had created the sandbox, but before it
// created the volumes and started a container.
func (v *Volumes) ensure(ctx context.Context) error {
	if v.made {
		return nil
	}
	fresh, err := v.lease.Fresh()
	if err == nil && fresh {
		err = v.make(ctx)
		v.emitMountErrors(ctx, err)
	}
	v.made = err == nil
	return err
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

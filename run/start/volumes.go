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

// Volumes makes a pod's directories and volumes.
type Volumes struct {
	pod   *pod.Pod
	lease *lease.Lease
	// made says that the volumes are there, as this process made them, or since containers
	// of the pod were started.
	made bool
}

// ensure makes the volumes of a pod whose sandbox was made by a podrun that ended
// before it had made them, and before it started any container.
func (v *Volumes) ensure(ctx context.Context) error {
	if v.made {
		return nil
	}
	fresh, err := v.lease.Fresh()
	if err == nil && fresh {
		err = v.make(ctx)
		v.emitMountErrors(err)
	}
	v.made = err == nil
	return err
}

// emitMountErrors reports each volume that could not be made.
func (v *Volumes) emitMountErrors(err error) {
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

// make makes the pod's volumes, those that may take long without the pod's
// lock. While they are made the pod's directory is locked, so that no other command makes
// or removes them before this one has ended.
func (v *Volumes) make(ctx context.Context) error {
	if !v.pod.Plan.Volumes.Slow() {
		return volume.Apply(ctx, v.pod.Plan.Volumes)
	}
	if err := volume.MakePodDir(v.pod.Plan.Volumes); err != nil {
		return pod.InStep(v.pod.Plan.ID, "make its directories", err)
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

// Refresh brings the files that podrun writes up to date, while the pod's
// containers run. For a pod without a sandbox they are made with the sandbox.
func (v *Volumes) Refresh(ctx context.Context) error {
	if v.pod.Observed.Sandbox() == nil {
		return nil
	}
	err := volume.Refresh(ctx, v.pod.Plan.Volumes)
	if err != nil {
		v.emitMountErrors(err)
		if e, ok := errors.AsType[*problem.Error](err); ok {
			e.Op = "update volumes"
		}
	}
	return err
}

package start

import (
	"context"
	"errors"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox"
)

// awaitKilled makes the sandbox for whose name the runtime still works on the call of a
// podrun that was killed. The error is store.ErrChanged if that one's sandbox has
// come up instead: it is the pod's, and the caller decides again.
func (w *Starter) awaitKilled(ctx context.Context, plan sandbox.Plan, reserved error) (made sandbox.Sandbox, err error) {
	known := len(w.pod.Observed.Sandboxes)
	err = cri.While(ctx, cri.BusyFor, func() (again bool, _ error) {
		now, err := w.pod.Node.Observe(ctx, w.pod.Plan.ID.UID)
		if err != nil {
			return false, errors.Join(reserved, err)
		}
		if len(now.Sandboxes) > known {
			w.pod.Observed = now
			return false, store.ErrChanged
		}
		made, err = sandbox.Apply(ctx, w.pod.Node.Client, plan) // its undo is there since the first try
		return cri.Reserved(err), err
	})
	return made, err
}

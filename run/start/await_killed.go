package start

import (
	"context"
	"errors"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox"
)

// awaitKilled creates the sandbox after the runtime has rejected its name. The runtime rejects the name
// while it is still executing the call of a podrun process that was killed. If that call creates the
// sandbox, awaitKilled returns store.ErrChanged: the pod then has a sandbox, and the caller must make a
// new decision.
func (st *Starter) awaitKilled(ctx context.Context, plan sandbox.Plan, reserved error) (made sandbox.Sandbox, err error) {
	known := len(st.pod.Observed.Sandboxes)
	err = cri.RetryWhile(ctx, cri.BusyFor, func() (again bool, _ error) {
		now, err := st.pod.Node.Observe(ctx, st.pod.Plan.ID.UID)
		if err != nil {
			return false, errors.Join(reserved, err)
		}
		if len(now.Sandboxes) > known {
			st.pod.Observed = now
			return false, store.ErrChanged
		}
		// The first attempt has already registered the undo step.
		made, err = sandbox.Apply(ctx, st.pod.Node.Client, plan)
		return cri.Reserved(err), err
	})
	return made, err
}

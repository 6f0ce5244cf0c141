package start

import (
	"context"
	"fmt"
	"slices"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
)

// removeOld removes all earlier runs of a container except the last one. The kubelet also keeps the
// last run, for its logs and for the container's last state. If removeOld has removed the last
// container of a stopped sandbox, it also removes the sandbox.
func (st *Starter) removeOld(ctx context.Context, name string) error {
	kept, removed := false, false
	// The loop needs a copy, because Drop shortens the list.
	for _, c := range slices.Clone(st.pod.Observed.Containers) {
		switch {
		case c.Name != name || c.State == lifecycle.Running:
			continue
		case c.State == lifecycle.Exited && !kept:
			kept = true // the last run
			continue
		}
		if err := st.pod.Node.Client.RemoveContainer(ctx, c.ID); err != nil {
			return fmt.Errorf("remove a previous instance (%s): %w", observe.ShortID(c.ID), err)
		}
		if err := st.logs.remove(c); err != nil {
			return fmt.Errorf("remove the log of a previous instance (%s): %w", observe.ShortID(c.ID), err)
		}
		st.pod.Observed.Drop(c.ID)
		removed = true
		if c.CreateFailed {
			if err := st.pod.Keep(st.pod.Observed.Kept.WithoutCreateFailure(c.Name)); err != nil {
				return err
			}
		}
	}
	if !removed {
		return nil
	}
	// This removes a sandbox whose last container was removed.
	return st.removeDead(ctx)
}

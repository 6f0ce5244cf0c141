package start

import (
	"context"
	"fmt"
	"slices"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
)

// removeOld removes all earlier runs of a container except the last one. The kubelet also keeps that
// run, for its logs and the container's last state. removeOld also removes a stopped sandbox whose last
// container it has removed.
func (st *Starter) removeOld(ctx context.Context, name string) error {
	kept, removed := false, false
	for _, c := range slices.Clone(st.pod.Observed.Containers) { // Drop shortens the list
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
	return st.removeDead(ctx) // of a sandbox whose last container was removed
}

package pod

import (
	"fmt"
	"maps"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// RecordRestarts records that podrun will start containers again, and why. It must be called before
// podrun kills them. It does nothing if cause is empty. The pod's lock must be held.
func (p *Pod) RecordRestarts(cause lifecycle.RestartCause, ids ...string) error {
	if cause == "" || len(ids) == 0 {
		return nil
	}
	return p.keepRestarts(p.Observed.WithPendingRestarts(cause, ids...))
}

// EndRestarts removes pending restarts that are complete. The argument ending contains the
// containers that podrun is stopping (store.OwnerRecord).
func (p *Pod) EndRestarts(ending map[string]time.Time) error {
	return p.keepRestarts(p.Observed.CurrentRestarts(ending))
}

// keepRestarts writes the pending restarts if they have changed. If it cannot write the file, it
// keeps them in this process, because podrun must kill an unhealthy container in any case.
func (p *Pod) keepRestarts(all map[string]lifecycle.PendingRestart) error {
	if maps.Equal(all, p.Observed.PendingRestarts) {
		return nil
	}
	path := p.Plan.Layout.Pod(p.Plan.ID.UID).PendingRestarts()
	var err error
	if len(all) == 0 {
		err = statefile.Remove(path)
	} else {
		err = store.PendingRestartsFile.Write(path, all)
	}
	if err != nil {
		err = fmt.Errorf("pod %s: record the restarting containers: %w", p.Plan.ID, err)
	}
	switch {
	case err == nil:
		p.unrecorded = nil
	case !store.CannotWrite(err):
		return err
	default:
		if p.unrecorded == nil {
			p.Node.SendWarnings(problem.List{problem.WarningOf(err)})
		}
		p.unrecorded = all
	}
	p.Observed.PendingRestarts = all
	return nil
}

// RunningIDs returns the IDs of the running containers.
func (p *Pod) RunningIDs() []string {
	var ids []string
	for _, c := range p.Observed.Containers {
		if c.State == lifecycle.Running {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

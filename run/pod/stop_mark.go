package pod

import (
	"errors"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/store"
)

// MarkStopped records why a command is about to stop the pod permanently, and whether the stop interrupts
// the pod. start and apply run an interrupted pod again, even if its restartPolicy would not restart its
// containers.
func (p *Pod) MarkStopped(why, hint string, interrupts bool) error {
	before := store.ReadStopMark(p.Plan.Layout, p.Plan.ID.UID)
	mark := store.StopMark{Why: why, Hint: hint, Interrupted: interrupts || before != nil && before.Interrupted}
	return store.StopMarkFile.Write(p.Plan.Layout.Pod(p.Plan.ID.UID).StoppedMark(), mark)
}

// WasStopped returns an error if another command stopped the pod before or while this command
// waited, and nil otherwise.
func (p *Pod) WasStopped() error {
	mark := store.ReadStopMark(p.Plan.Layout, p.Plan.ID.UID)
	if mark == nil {
		return nil
	}
	if p.RemovedAtEnd {
		mark.Hint = ""
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + p.Plan.ID.String(), Err: errors.New(mark.Why), Hint: mark.Hint}
}

// ClearStopped removes the record that the pod was stopped. It must be called after the pod has
// been admitted again.
func (p *Pod) ClearStopped() error {
	return statefile.Remove(p.Plan.Layout.Pod(p.Plan.ID.UID).StoppedMark())
}

package pod

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// MarkStopped records why the pod is about to be stopped permanently.
func (p *Pod) MarkStopped(why, hint string) error {
	return store.WriteState(p.Plan.Layout.StoppedMark(p.Plan.ID.UID), []byte(why+"\n"+hint+"\n"), 0o600)
}

// WasStopped returns the error for a command whose pod was stopped before or during a wait; nil if it
// was not stopped.
func (p *Pod) WasStopped() error {
	data, err := store.ReadState(p.Plan.Layout.StoppedMark(p.Plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	why, hint, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if p.RemovedAtEnd {
		hint = ""
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + p.Plan.ID.String(), Err: errors.New(why), Hint: hint}
}

// ClearStopped removes the record that the pod was stopped, because it has been admitted again.
func (p *Pod) ClearStopped() error {
	err := os.Remove(p.Plan.Layout.StoppedMark(p.Plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

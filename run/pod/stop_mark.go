package pod

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// MarkStopped keeps why the pod is about to be stopped for good.
func (p *Pod) MarkStopped(why, hint string) error {
	return store.WriteState(p.Plan.Layout.StoppedMark(p.Plan.ID.UID), []byte(why+"\n"+hint+"\n"), 0o600)
}

// WasStopped is the error of a command whose pod was stopped while it waited, or
// before; nil if it was not.
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

// ClearStopped forgets that a pod was stopped: it is admitted again.
func (p *Pod) ClearStopped() error {
	err := os.Remove(p.Plan.Layout.StoppedMark(p.Plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

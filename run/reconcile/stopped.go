package reconcile

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// markStopped keeps why the pod is about to be stopped for good.
func (w *Pod) MarkStopped(why, hint string) error {
	return store.WriteState(w.Plan.Layout.StoppedMark(w.Plan.ID.UID), []byte(why+"\n"+hint+"\n"), 0o600)
}

// wasStopped is the error of a command whose pod was stopped while it waited, or
// before; nil if it was not.
func (w *Pod) WasStopped() error {
	data, err := store.ReadState(w.Plan.Layout.StoppedMark(w.Plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	why, hint, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if w.RemovedAtEnd {
		hint = ""
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + w.Plan.ID.String(), Err: errors.New(why), Hint: hint}
}

// clearStopped forgets that a pod was stopped: it is admitted again.
func (w *Pod) ClearStopped() error {
	err := os.Remove(w.Plan.Layout.StoppedMark(w.Plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

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
func (w *state) markStopped(why, hint string) error {
	return store.WriteState(w.plan.Layout.StoppedMark(w.plan.ID.UID), []byte(why+"\n"+hint+"\n"), 0o600)
}

// wasStopped is the error of a command whose pod was stopped while it waited, or
// before; nil if it was not.
func (w *state) wasStopped() error {
	data, err := store.ReadState(w.plan.Layout.StoppedMark(w.plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	why, hint, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if w.removedAtEnd {
		hint = ""
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + w.plan.ID.String(), Err: errors.New(why), Hint: hint}
}

// clearStopped forgets that a pod was stopped: it is admitted again.
func (w *state) clearStopped() error {
	err := os.Remove(w.plan.Layout.StoppedMark(w.plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

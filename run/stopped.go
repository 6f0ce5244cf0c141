package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// stoppedMark is the file that says who stopped a pod, or for whom, and what to
// do about it, a line each: a command that waits for the pod must not start it
// again.
func stoppedMark(layout identity.Layout, uid string) string {
	return filepath.Join(layout.Pod(uid), "stopped")
}

// markStopped keeps why the pod is about to be stopped for good.
func (s *syncer) markStopped(why, hint string) error {
	return writeState(stoppedMark(s.plan.Layout, s.plan.ID.UID), []byte(why+"\n"+hint+"\n"), 0o600)
}

// wasStopped is the error of a command whose pod was stopped while it waited, or
// before; nil if it was not.
func (s *syncer) wasStopped() error {
	data, err := readState(stoppedMark(s.plan.Layout, s.plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	why, hint, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	return &problem.Error{Kind: problem.Failed, Object: "pod " + s.plan.ID.String(), Err: errors.New(why), Hint: hint}
}

// welcomeBack forgets that a pod was stopped: it is admitted again.
func (s *syncer) welcomeBack() error {
	err := os.Remove(stoppedMark(s.plan.Layout, s.plan.ID.UID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// reportOOMs emits an event for each container that was killed for its memory, once
// for each kill, and returns the IDs of those that were reported.
func (w *Pod) reportOOMs() (reported []string) {
	for _, c := range w.Observed.OOMKilled() {
		if !slices.Contains(w.Observed.Kept.OOMKilled, c.ID) {
			w.Emit(event.Warning, event.OOMKilling, c.Name,
				fmt.Sprintf("Memory cgroup out of memory: container %s (exit code %d)", c.Name, c.ExitCode))
		}
		reported = append(reported, c.ID)
	}
	return reported
}

// keepStatus writes down what others cannot find out of the pod's status, if that has
// changed: since when its conditions hold, and how it has ended. The pod's lock must
// be held, and this command own the pod.
func (w *Pod) KeepStatus(ending map[string]time.Time) error {
	before := w.Observed.Kept
	w.TakePending()
	if err := w.EndResize(); err != nil {
		return err
	}
	if err := w.EndRestarts(ending); err != nil {
		return err
	}
	ended := lifecycle.Next(w.Spec(), w.World()).Ended
	now := lifecycle.Keep(w.Status(), ended)
	now.OOMKilled, now.Evicted = w.reportOOMs(), w.Observed.Kept.Evicted
	now.ResizePending, now.ShutDown, now.Unmade = w.Observed.Kept.ResizePending, w.Observed.Kept.ShutDown, w.Observed.Kept.Unmade
	now.StartFailures = w.Observed.CurrentStartFailures()
	if now.Equal(before) {
		return nil
	}
	return w.Keep(now)
}

// keepStartFailure records why a container could not be started. The pod's lock must be
// held.
func (w *Pod) KeepStartFailure(name, reason, message string) error {
	return w.Keep(w.Observed.WithStartFailure(name, lifecycle.Failure{Waiting: lifecycle.Waiting{Reason: reason, Message: message}, At: time.Now()}))
}

// keep writes the kept part of the pod's status.
func (w *Pod) Keep(now lifecycle.Kept) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("pod %s: keep its status: %w", w.Plan.ID, err)
	}
	file := w.Plan.Layout.KeptStatus(w.Plan.ID.UID)
	err = os.Mkdir(filepath.Dir(file), 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the pod has no directory: it is new, or was deleted
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		write := store.WriteStateUnsynced // times that are lost are derived again
		if now.Terminal() {
			write = store.WriteState
		}
		err = write(file, data, 0o640)
	}
	if err != nil {
		return fmt.Errorf("pod %s: keep its status: %w", w.Plan.ID, err)
	}
	w.Observed.Kept = now
	return nil
}

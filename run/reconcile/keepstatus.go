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
func (w *state) reportOOMs() (reported []string) {
	for _, c := range w.obs.OOMKilled() {
		if !slices.Contains(w.obs.Kept.OOMKilled, c.ID) {
			w.emit(event.Warning, event.OOMKilling, c.Name,
				fmt.Sprintf("Memory cgroup out of memory: container %s (exit code %d)", c.Name, c.ExitCode))
		}
		reported = append(reported, c.ID)
	}
	return reported
}

// keepStatus writes down what others cannot find out of the pod's status, if that has
// changed: since when its conditions hold, and how it has ended. The pod's lock must
// be held, and this command own the pod.
func (w *state) keepStatus(ending map[string]time.Time) error {
	before := w.obs.Kept
	w.takePending()
	if err := w.endResize(); err != nil {
		return err
	}
	if err := w.endRestarts(ending); err != nil {
		return err
	}
	ended := lifecycle.Next(w.pod(), w.world()).Ended
	now := lifecycle.Keep(w.Status(), ended)
	now.OOMKilled, now.Evicted = w.reportOOMs(), w.obs.Kept.Evicted
	now.ResizePending, now.ShutDown, now.Unmade = w.obs.Kept.ResizePending, w.obs.Kept.ShutDown, w.obs.Kept.Unmade
	now.StartFailures = w.obs.CurrentStartFailures()
	if now.Equal(before) {
		return nil
	}
	return w.keep(now)
}

// keepStartFailure records why a container could not be started. The pod's lock must be
// held.
func (w *state) keepStartFailure(name, reason, message string) error {
	return w.keep(w.obs.WithStartFailure(name, lifecycle.Failure{Waiting: lifecycle.Waiting{Reason: reason, Message: message}, At: time.Now()}))
}

// keep writes the kept part of the pod's status.
func (w *state) keep(now lifecycle.Kept) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("pod %s: keep its status: %w", w.plan.ID, err)
	}
	file := w.plan.Layout.KeptStatus(w.plan.ID.UID)
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
		return fmt.Errorf("pod %s: keep its status: %w", w.plan.ID, err)
	}
	w.obs.Kept = now
	return nil
}

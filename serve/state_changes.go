package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
)

// stateChanges watches the owner records and claims of pods. When one of them changes, it calls changed
// and sends the pod to the returned channel, or an empty name if events were lost. It calls replicas when
// the number of pods of a workload changes, or if a pod of a workload may be missing. If the directories
// cannot be watched, it prints a warning and returns nil.
func stateChanges(ctx context.Context, e *run.Node, changed, replicas func()) <-chan identity.Pod {
	w, err := fsnotify.NewWatcher()
	for _, dir := range []string{e.Layout().Owners(), e.Layout().Claims(), e.Layout().Workloads()} {
		if err == nil {
			err = errors.Join(store.MakeStateDir(dir), w.Add(dir))
		}
	}
	if err != nil {
		e.SendWarnings(problem.List{problem.WarningOf(fmt.Errorf("watch the pods' state files: %w; podrun reads them periodically instead", err))})
		if w != nil {
			_ = w.Close()
		}
		return nil
	}
	out := make(chan identity.Pod)
	go func() {
		defer w.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.Errors:
				// After an overflow, the events of any pod may have been lost.
				replicas()
				changed()
				select {
				case out <- identity.Pod{}:
				case <-ctx.Done():
					return
				}
			case ev := <-w.Events:
				id, ok := identity.NamedPod(filepath.Base(ev.Name))
				if !ok {
					continue
				}
				if filepath.Dir(ev.Name) == e.Layout().Workloads() {
					replicas()
					continue
				}
				if ev.Has(fsnotify.Remove) && store.HasWorkloads(e.Layout()) {
					replicas() // a replica may have been deleted
				}
				changed()
				select {
				case out <- id:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

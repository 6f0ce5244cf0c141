package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// stopSandboxes stops those of podrun's sandboxes that are chosen. It tries all.
func (w *stopper) stopSandboxes(ctx context.Context, chosen func(lifecycle.Sandbox) bool) error {
	var errs []error
	for i := range w.obs.Sandboxes {
		sb := &w.obs.Sandboxes[i]
		if !sb.Managed || !chosen(*sb) {
			continue
		}
		if err := w.Client.StopPodSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox %s: %w", observe.ShortID(sb.ID), err))
			continue
		}
		sb.Ready = false
	}
	return errors.Join(errs...)
}

// noteEndingSandboxes writes down that the pod's sandboxes are about to be stopped. If
// this process is killed meanwhile, the runtime reports them as ready for a while
// although nothing can be started in them.
func (w *stopper) noteEndingSandboxes() error {
	ready := map[string]time.Time{}
	for _, sb := range w.obs.Sandboxes {
		if sb.Managed && sb.Ready {
			ready[sb.ID] = time.Now()
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return w.lock.Update(func(r *store.OwnerRecord) {
		maps.Copy(ready, r.Ending)
		r.Ending = ready
	})
}

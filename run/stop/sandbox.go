package stop

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

// stopSandboxes stops the chosen sandboxes that podrun manages. It continues after errors.
func (s *Stopper) stopSandboxes(ctx context.Context, chosen func(lifecycle.Sandbox) bool) error {
	var errs []error
	for i := range s.pod.Observed.Sandboxes {
		sb := &s.pod.Observed.Sandboxes[i]
		if !sb.Managed || !chosen(*sb) {
			continue
		}
		if err := s.stopSandbox(ctx, sb.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		sb.Ready = false
	}
	return errors.Join(errs...)
}

// stopSandbox stops a sandbox. If the last owner was killed, the runtime may not have started the
// sandbox's task. In that case, stopSandbox deletes the task.
func (s *Stopper) stopSandbox(ctx context.Context, id string) error {
	err := DuringOutage(ctx, func() error {
		err := s.pod.Node.Client.StopPodSandbox(ctx, id)
		// The next attempt does not remove the leftovers of an interrupted network plugin.
		if err != nil {
			s.lease.Lock.NoteUnreleased([]string{id})
		}
		return err
	})
	if err == nil && s.lease.Lock.Killed {
		err = s.pod.Node.Client.Containerd.DeleteUnstartedTask(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", observe.ShortID(id), err)
	}
	return nil
}

// recordEndingSandboxes records that podrun is about to stop the pod's sandboxes. If this process is
// killed during the stop, the runtime reports the sandboxes as ready for a while, although no
// container can be started in them. It returns store.ErrChanged if another command owns the pod.
func (s *Stopper) recordEndingSandboxes() error {
	if err := s.lease.Lock.CheckOwned(); err != nil {
		return err
	}
	ready := s.endingSandboxes(s.lease.Lock.Ending)
	if len(ready) == 0 {
		return nil
	}
	return s.lease.Lock.Update(func(r *store.OwnerRecord) {
		maps.Copy(ready, r.Ending)
		r.Ending = ready
	})
}

// endingSandboxes returns the ready sandboxes that are not in noted.
func (s *Stopper) endingSandboxes(noted map[string]time.Time) map[string]time.Time {
	ready := map[string]time.Time{}
	for _, sb := range s.pod.Observed.Sandboxes {
		if _, is := noted[sb.ID]; sb.Managed && sb.Ready && !is {
			ready[sb.ID] = time.Now()
		}
	}
	return ready
}

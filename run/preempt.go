package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
)

// preempted is the kubelet's message to the pods that it stops for a critical
// one (pkg/kubelet/preemption).
const preempted = "Preempted in order to admit critical pod"

// preemptPatience is how long a critical pod waits for a command that works on
// one of the pods that must go. It ends where that command waits for us.
const preemptPatience = 2 * time.Minute

// preempt stops pods, within their grace periods, so that this one has room. It
// was reserved under the node's lock: nobody else takes it meanwhile. They stay
// here as stopped pods do; applying them again asks for room anew.
func (s *syncer) preempt(ctx context.Context, victims []identity.Pod) error {
	errs := make([]error, len(victims))
	var wg sync.WaitGroup
	for i, id := range victims {
		wg.Go(func() {
			if err := s.preemptOne(ctx, id); err != nil {
				errs[i] = s.inStep("preempt pod "+id.String(), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *syncer) preemptOne(ctx context.Context, id identity.Pod) error {
	bounded, cancel := context.WithTimeoutCause(ctx, preemptPatience, errTimeout{preemptPatience})
	defer cancel()
	lock, err := s.lockPod(bounded, id)
	if err != nil {
		return err
	}
	defer lock.unlock()
	if c, err := readCheckpoint(s.layout(), id.UID); err != nil || c == nil {
		return err // it is gone
	}
	v, err := s.resume(ctx, Known{ID: id}, lock)
	if err != nil {
		return err
	}
	if err := v.markStopped("was preempted in order to admit critical pod "+s.plan.ID.String(), "apply it again when there is room"); err != nil {
		return errors.Join(err, v.journal.close())
	}
	v.emit(event.Warning, event.Preempting, "", preempted)
	err = v.stopPod(ctx, v.gracePeriod(), preempted)
	return errors.Join(err, v.journal.close())
}

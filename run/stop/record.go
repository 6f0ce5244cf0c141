package stop

import (
	"context"
	"maps"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// planStops returns the plan for stopping the containers. If a container is already being stopped, its
// deadline does not change. Its preStop hook runs unless the hook has ended.
func (s *Stopper) planStops(list []lifecycle.Container, grace time.Duration) []*stop {
	var out []*stop
	for _, c := range list {
		st := &stop{Container: c, message: "Stopping container " + c.Name, end: newGraceEnd(grace)}
		end, told := s.lease.Lock.Ending[c.ID]
		before, known := s.lease.Lock.Stops[c.ID]
		if told {
			st.end.shorten(end)
		}
		// An older version of podrun recorded only containers that it had asked to stop.
		st.asked = told && (!known || before.TermAt != nil)
		if st.asked {
			st.end.noMinimum()
		}
		if left, _ := st.end.left(); !st.asked && before.Hook != store.StopHookDone && left > 0 {
			if plan, has := s.preStop(c); has {
				st.hook = &plan
			}
		}
		out = append(out, st)
	}
	return out
}

// recordEnding records the containers that podrun is about to stop, the ends of their grace periods,
// and the phases of their stops. If podrun is removing the pod, recordEnding also records the removal
// and the pod's sandboxes.
func (s *Stopper) recordEnding(list []*stop, grace time.Duration) error {
	if len(list) == 0 && !s.Removes {
		return nil
	}
	now := time.Now()
	err := s.lease.Lock.Update(func(r *store.OwnerRecord) {
		ending, stops := s.existing(r.Ending), s.existingStops(r.Stops)
		for _, st := range list {
			ending[st.ID] = now.Add(grace)
			if before, told := r.Ending[st.ID]; told && before.Before(ending[st.ID]) {
				ending[st.ID] = before
			}
			stops[st.ID] = st.begin(stops[st.ID], now)
		}
		if s.Removes {
			maps.Copy(ending, s.endingSandboxes(r.Ending))
		}
		r.Ending = ending
		r.Stops = stops
		if s.Removes {
			r.BeginRemoval(now, grace, s.Recreates)
		}
	})
	if stopping := s.pod.Node.Observer.Stopping; stopping != nil && err == nil {
		stopping(s.pod.Plan.ID)
	}
	return err
}

// begin returns the first phase of the stop.
func (st *stop) begin(before store.ContainerStop, now time.Time) store.ContainerStop {
	at := now.UTC()
	switch {
	case st.hook != nil:
		before.Hook = store.StopHookRunning
		if before.HookSince == nil {
			before.HookSince = &at
		}
	case !st.afterOthers && before.TermAt == nil:
		before.TermAt = &at
	}
	return before
}

// existing returns the entries of the containers and sandboxes that exist, so that the record of a pod
// whose containers are killed for months does not grow.
func (s *Stopper) existing(ending map[string]time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for id, end := range ending {
		if s.observes(id) {
			out[id] = end
		}
	}
	return out
}

func (s *Stopper) existingStops(stops map[string]store.ContainerStop) map[string]store.ContainerStop {
	out := map[string]store.ContainerStop{}
	for id, st := range stops {
		if s.observes(id) {
			out[id] = st
		}
	}
	return out
}

func (s *Stopper) observes(id string) bool {
	for _, c := range s.pod.Observed.Containers {
		if c.ID == id {
			return true
		}
	}
	for _, sb := range s.pod.Observed.Sandboxes {
		if sb.ID == id {
			return true
		}
	}
	return false
}

// note records that a stop has reached its next phase. An error only means that a later owner may
// repeat the phase, so note ignores it.
func (s *Stopper) note(ctx context.Context, st *stop, hookDone, asked bool) {
	if hookDone = hookDone && st.hook != nil; !hookDone && !asked {
		return
	}
	_ = s.lease.Lock.Amend(ctx, func(r *store.OwnerRecord) {
		now, known := r.Stops[st.ID]
		if !known {
			return
		}
		if hookDone {
			now.Hook = store.StopHookDone
		}
		if at := time.Now().UTC(); asked {
			now.TermAt = &at
		}
		r.Stops[st.ID] = now
	})
}

// lostOrShortened returns the function by which lease.Lease.Do checks whether another command has
// taken over the pod. The function also applies the shorter grace period of a command that waits for a
// preStop hook.
func (s *Stopper) lostOrShortened(list []*stop) func() bool {
	return func() bool {
		if r, err := s.lease.Lock.Owner(); err == nil && r != nil && r.Generation == s.lease.Lock.Mine {
			for _, st := range list {
				if end, told := r.Ending[st.ID]; told {
					st.end.shorten(end)
				}
			}
		}
		return s.lease.Lost()
	}
}

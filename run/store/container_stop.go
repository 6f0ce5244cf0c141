package store

import (
	"context"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// HookPhase is the phase of a container's preStop hook while the container is being stopped.
type HookPhase string

// The phases. A container without a preStop hook, and one that is stopped with the grace period 0, has
// no phase.
const (
	// StopHookPending means that the process that ran the hook ended before the hook did. The next
	// owner runs the hook again, with the rest of the grace period.
	StopHookPending HookPhase = "Pending"
	// StopHookRunning means that the owner, if it is live, is running the hook.
	StopHookRunning HookPhase = "Running"
	// StopHookDone means that the hook has ended, or has used up the grace period.
	StopHookDone HookPhase = "Done"
)

// ContainerStop is how far the stop of a container has come. The end of the container's grace period
// is in OwnerRecord.Ending.
type ContainerStop struct {
	Hook HookPhase `json:"hook,omitempty"`
	// HookSince is the time at which the hook began to run for the first time; nil if Hook is "".
	HookSince *time.Time `json:"hookSince,omitempty"`
	// TermAt is the time at which podrun asked the runtime to stop the container; nil before that.
	TermAt *time.Time `json:"termAt,omitempty"`
}

// hookSlack is how long after the end of the grace period a hook still counts as running. The owner
// cancels the hook at that end; an owner that does not is suspended.
const hookSlack = 2 * time.Second

// HookRuns reports whether the owner, if it is live, is running a preStop hook. The hook is a call of
// the owner's process and dies with it. Therefore, no other process takes over the pod before the
// hook has ended.
func (r *OwnerRecord) HookRuns() bool {
	if r == nil {
		return false
	}
	now := time.Now()
	for id, s := range r.Stops {
		if s.Hook == StopHookRunning && now.Before(r.Ending[id].Add(hookSlack)) {
			return true
		}
	}
	return false
}

// interruptHooks records that no process is running the hooks that have not ended.
func (r *OwnerRecord) interruptHooks() {
	for id, s := range r.Stops {
		if s.Hook == StopHookRunning {
			s.Hook = StopHookPending
			r.Stops[id] = s
		}
	}
}

// cloneStops returns a copy that shares no memory with the stops; nil if there are none.
func cloneStops(stops map[string]ContainerStop) map[string]ContainerStop {
	if stops == nil {
		return nil
	}
	out := make(map[string]ContainerStop, len(stops))
	for id, s := range stops {
		if s.HookSince != nil {
			s.HookSince = new(*s.HookSince)
		}
		if s.TermAt != nil {
			s.TermAt = new(*s.TermAt)
		}
		out[id] = s
	}
	return out
}

// WithGrace returns the locks of a command that stops or removes pods with the given grace period. If
// the owner of such a pod is running a preStop hook, the command does not take over the pod, but
// shortens the owner's grace period.
func (l Locks) WithGrace(grace time.Duration) Locks {
	l.grace = &grace
	return l
}

// handGrace shortens the grace periods of the stops of the owner r to the command's grace period,
// which begins now. It never extends them. The lock must be held. An error is ignored, because the
// hook then uses the grace period that the owner has.
func (l *PodLock) handGrace(r *OwnerRecord) {
	if l.grace == nil {
		return
	}
	end, shorter := time.Now().Add(*l.grace), false
	for id := range r.Stops {
		if before, stops := r.Ending[id]; stops && end.Before(before) {
			r.Ending[id], shorter = end, true
		}
	}
	if shorter {
		_ = writeOwner(l.layout, l.id, *r)
	}
}

// Amend changes the owner record, and possibly other state of the pod, while the command does not hold
// the lock, during a long call. It takes the lock for a moment. It returns ErrChanged if another command
// owns the pod. It may be called concurrently.
func (l *PodLock) Amend(ctx context.Context, change func(*OwnerRecord)) error {
	if l.Pinned {
		return nil
	}
	silent := l.Locks
	silent.warn = func(problem.List) {}
	short := silent.podLock(l.id)
	short.Removal = l.Removal
	if _, err := short.Take(ctx); err != nil {
		return err
	}
	defer short.Unlock()
	r, err := short.Owner()
	switch {
	case err != nil:
		return err
	case r == nil || r.Generation != l.Mine:
		return ErrChanged
	}
	change(r)
	return writeOwner(l.layout, l.id, *r)
}

// Reload reads what the owner record says about the stops of containers, which Amend and other
// commands change. The lock must be held.
func (l *PodLock) Reload() {
	if r, err := l.Owner(); err == nil && r != nil && r.Generation == l.Mine {
		l.Ending = r.Ending
		l.Stops = r.Stops
	}
}

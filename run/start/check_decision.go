package start

import (
	"context"
	"slices"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// BeginPass records the container states on which podrun bases its decision about the following actions.
// The lease may observe the pod again while one of the actions waits, for example for an image.
func (st *Starter) BeginPass() {
	st.Repeats = nil
	st.decidedOn = map[string]lifecycle.Container{}
	// Only the newest container of each name remains in the map.
	for _, c := range slices.Backward(st.pod.Observed.Containers) {
		st.decidedOn[c.Name] = c
	}
}

// checkDecision returns store.ErrChanged if the decision to start the containers is outdated, because the sandbox has
// ended, for example while images were pulled, or because one of the containers was started. The runtime may start a
// container for a podrun process that was already killed. Without a new decision, two containers of that name would
// run, or a completed container would run again.
func (st *Starter) checkDecision(_ context.Context, b *batch) error {
	if len(b.all) == 0 {
		return nil
	}
	if sb := st.pod.Observed.Sandbox(); sb == nil || !sb.Ready {
		return store.ErrChanged
	}
	for _, s := range b.all {
		if st.startedSinceDecision(s.action.Container) {
			return store.ErrChanged
		}
	}
	return nil
}

// startedSinceDecision reports whether a container was started after the actions of this pass were decided.
// If a container ran at that time and has exited, an earlier action of the pass killed it, so it does not
// count.
func (st *Starter) startedSinceDecision(name string) bool {
	now := st.pod.Observed.Container(name)
	if now == nil || now.State != lifecycle.Exited {
		return now != nil && now.State == lifecycle.Running
	}
	before := st.decidedOn[name] // the zero value if the container did not exist
	return before.ID != now.ID || before.State != lifecycle.Exited && before.State != lifecycle.Running
}

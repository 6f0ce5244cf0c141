package start

import (
	"context"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
)

// maxUnknownPIDs is the number of attempts after which podrun reports that a container cannot be started
// because the runtime does not know the PID of the sandbox.
const maxUnknownPIDs = 3

// startFailed handles the error of StartContainer. If the runtime did not know the PID of the sandbox, the
// next pass replaces the container: it is observed as never started. Otherwise, and after maxUnknownPIDs
// attempts, startFailed does the same as containerFailed.
func (st *Starter) startFailed(ctx context.Context, s *starting) error {
	name := s.action.Container
	if !cri.NoSandboxPID(s.err) || ctx.Err() != nil {
		return st.containerFailed(ctx, name, stepStart, s.err)
	}
	if lifecycle.FindContainer(st.pod.Spec(), name).Ephemeral {
		// podrun starts an ephemeral container only if it does not exist.
		if err := st.pod.Node.Client.RemoveContainer(ctx, s.created.ID); err != nil {
			return st.containerFailed(ctx, name, stepStart, s.err)
		}
		st.pod.Observed.Drop(s.created.ID)
	}
	if st.unknownPIDs[name]++; st.unknownPIDs[name] >= maxUnknownPIDs {
		return st.containerFailed(ctx, name, stepStart, s.err)
	}
	failure := failureOf(st.pod, name, stepStart, s.err)
	st.pod.Emit(event.Warning, stepStart.event, name, "Error: "+cause(failure))
	s.repeats = true
	st.Repeats = append(st.Repeats, failure)
	return nil
}

package start

import (
	"context"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
)

// maxUnknownPIDs is the number of attempts after which podrun reports that a container cannot be started
// because the runtime does not know the PID of the sandbox.
const maxUnknownPIDs = 3

// startFailed handles the error of StartContainer. If the runtime did not know the PID of the sandbox, the
// next pass replaces the container: it is observed as never started. Otherwise, and after maxUnknownPIDs
// attempts, startFailed does the same as containerFailed.
func (st *Starter) startFailed(ctx context.Context, s *starting) error {
	name := s.action.Container
	if cri.NoSandboxPID(s.err) && ctx.Err() == nil {
		if st.unknownPIDs[name]++; st.unknownPIDs[name] < maxUnknownPIDs {
			st.pod.Emit(event.Warning, event.FailedToStart, name, "Error: "+s.err.Error())
			s.repeats = true
			return nil
		}
	}
	return st.containerFailed(ctx, name, stepStart, s.err)
}

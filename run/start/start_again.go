package start

import (
	"context"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
)

// maxStartTries is the maximum number of containers that podrun creates, one after the other, because the
// runtime did not know the PID of the sandbox. Each attempt of the runtime waits for the shim for
// seconds, so that podrun needs no back-off between them.
const maxStartTries = 3

// startAgain replaces a container that cannot start because the runtime did not know the PID of the
// sandbox, and starts the new one. The result is in s.
func (st *Starter) startAgain(ctx context.Context, s *starting) {
	client := st.pod.Node.Client
	for try := 1; try < maxStartTries && cri.NoSandboxPID(s.err) && ctx.Err() == nil; try++ {
		if st.lease.Lock.CheckOwned() != nil || client.RemoveContainer(ctx, s.created.ID) != nil {
			return // the caller reports why the container did not start
		}
		st.pod.Observed.Drop(s.created.ID)
		sb := st.pod.Observed.Sandbox()
		if s.created.ID, s.err = container.Apply(ctx, client, sb.ID, s.config, st.sandboxConfig()); s.err != nil {
			return
		}
		s.created = s.asCreated(st.pod, sb.ID)
		st.pod.Emit(event.Normal, event.CreatedContainer, s.action.Container, "Container created")
		st.pod.Observed.Put(s.created)
		if lifecycle.HasPostStart(lifecycle.FindContainer(st.pod.Spec(), s.action.Container).Container) {
			if s.err = st.Hooks.markHook(s.created.ID, lifecycle.HookPending); s.err != nil {
				return
			}
		}
		s.err = s.start(ctx, client)
	}
}

// start starts the container, which podrun has created. The call may continue after ctx ends.
func (s *starting) start(ctx context.Context, client *cri.Client) error {
	answered, stop := cri.ExtendContext(ctx)
	defer stop()
	return client.StartContainer(answered, s.created.ID)
}

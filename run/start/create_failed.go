package start

import (
	"context"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// The reason and the exit code that containerd reports for a container whose program cannot be
// executed (internal/cri/server/container_start.go).
const (
	reasonStartError = "StartError"
	codeStartError   = 128
)

// notCreated records a container that could not be created. CRI-O executes a container's program when
// it creates the container. So if the program is missing, CRI-O fails to create the container,
// whereas containerd creates it and reports it as exited. podrun records the state that containerd
// would report.
func (st *Starter) notCreated(ctx context.Context, c lifecycle.Container, err error) error {
	if c.SandboxID == "" {
		return st.containerFailed(ctx, c.Name, stepConfig, err)
	}
	if _, _, ok := cri.CommandFailure(err); !ok || context.Cause(ctx) != nil {
		return st.containerFailed(ctx, c.Name, stepCreate, err)
	}
	if err := st.lease.BeforeStart(); err != nil {
		return err
	}
	now := time.Now()
	c.ID = store.RandomHex(32)
	c.CreateFailed = true
	c.State = lifecycle.Exited
	c.CreatedAt = now
	c.StartedAt = now
	c.FinishedAt = now
	c.ExitCode = codeStartError
	c.Reason = reasonStartError
	c.Message = st.pod.Redacted(c.Name, err).Error()
	st.pod.Observed.Put(c)
	if err := st.pod.Keep(st.pod.Observed.Kept.WithCreateFailure(c)); err != nil {
		return err
	}
	return st.containerFailed(ctx, c.Name, stepStart, err)
}

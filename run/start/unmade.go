package start

import (
	"context"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// reasonStartError and codeStartError are what containerd gives a container whose
// program cannot be run (internal/cri/server/container_start.go).
const (
	reasonStartError = "StartError"
	codeStartError   = 128
)

// notCreated notes a container that could not be created. CRI-O runs the program of a
// container when it creates it, so that one whose program is missing does not exist;
// containerd keeps it as ended. podrun writes down what containerd would show.
func (w *Starter) notCreated(ctx context.Context, c lifecycle.Container, err error) error {
	if c.SandboxID == "" {
		return w.containerFailed(ctx, c.Name, stepConfig, err)
	}
	if _, _, ok := cri.CommandFailure(err); !ok || context.Cause(ctx) != nil {
		return w.containerFailed(ctx, c.Name, stepCreate, err)
	}
	if err := w.lease.BeforeStart(); err != nil {
		return err
	}
	now := time.Now()
	c.ID, c.Unmade = store.RandomHex(32), true
	c.State, c.CreatedAt, c.StartedAt, c.FinishedAt = lifecycle.Exited, now, now, now
	c.ExitCode, c.Reason, c.Message = codeStartError, reasonStartError, w.pod.Redacted(c.Name, err).Error()
	w.pod.Observed.Put(c)
	if err := w.pod.Keep(w.pod.Observed.Kept.WithUnmade(c)); err != nil {
		return err
	}
	return w.containerFailed(ctx, c.Name, stepStart, err)
}

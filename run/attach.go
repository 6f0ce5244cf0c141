package run

import (
	"context"
	"fmt"
)

// Attach connects the streams to those of a container's own process, until it ends or
// the streams are cut. TTY must be that of the target. When ctx ends the connection is
// cut, and the process goes on. The errors are those of Exec.
func (e *Engine) Attach(ctx context.Context, t ExecTarget, s Streams) error {
	err := e.Client.Attach(ctx, t.ID, s)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; the container goes on", err)
	}
	if err != nil {
		_, err = t.fault("attach", err)
	}
	return err
}

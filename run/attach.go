package run

import (
	"context"
	"fmt"
)

// Attach connects the streams to those of a container's main process, until the process
// exits or the streams are closed. s.TTY must equal t.TTY. When ctx ends, Attach closes the
// connection, and the process continues to run. The errors are those of Exec.
func (e *Engine) Attach(ctx context.Context, t ExecTarget, s Streams) error {
	err := e.Client.Attach(ctx, t.ID, s)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; the container keeps running", err)
	}
	if err != nil {
		_, err = e.fault(ctx, t, "attach", err)
	}
	return err
}

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/internal/wait"
)

// deadline is the time limit of the command (--timeout).
type deadline struct {
	limit time.Duration // 0 for no limit
	// Unlimited is the command's context without the limit. It is for the parts of a command that
	// --timeout does not limit, such as the session of `podrun debug -it`.
	Unlimited context.Context
	Release   context.CancelFunc // never nil
}

// SetDeadline limits all waits of a command by its --timeout. The limit begins when the process starts,
// so that it includes the time until the runtime has started and the time that other podrun processes
// need before.
func (a *App) SetDeadline(c *cobra.Command) {
	a.Deadline.Unlimited = c.Context()
	if f := c.Flags().Lookup("timeout"); f == nil || f.Value.Type() != "duration" {
		return
	}
	// The flag exists and is a duration.
	limit, _ := c.Flags().GetDuration("timeout")
	a.Limit(c, limit)
}

// Limit is SetDeadline for a command whose limit is not the value of its flag.
func (a *App) Limit(c *cobra.Command, limit time.Duration) {
	if limit <= 0 {
		return
	}
	var ctx context.Context
	ctx, a.Deadline.Release = wait.WithRest(a.Deadline.Unlimited, limit, time.Since(a.Began))
	a.Deadline.limit = limit
	c.SetContext(ctx)
}

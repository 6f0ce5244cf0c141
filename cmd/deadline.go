package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/internal/wait"
)

// deadline is the time limit of the command (--timeout).
type deadline struct {
	limit time.Duration // 0 for no limit
	// unlimited is the command's context without the limit. It is for the parts of a command that
	// --timeout does not limit, such as the session of `podrun debug -it`.
	unlimited context.Context
	release   context.CancelFunc // never nil
}

// setDeadline limits all waits of a command by its --timeout. The limit begins when the process starts,
// so that it includes the time until the runtime has started and the time that other podrun processes
// need before.
func (a *app) setDeadline(c *cobra.Command) {
	a.deadline.unlimited = c.Context()
	if f := c.Flags().Lookup("timeout"); f == nil || f.Value.Type() != "duration" {
		return
	}
	// The flag exists and is a duration.
	limit, _ := c.Flags().GetDuration("timeout")
	a.limit(c, limit)
}

// limit is setDeadline for a command whose limit is not the value of its flag.
func (a *app) limit(c *cobra.Command, limit time.Duration) {
	if limit <= 0 {
		return
	}
	var ctx context.Context
	ctx, a.deadline.release = wait.WithRest(a.deadline.unlimited, limit, time.Since(a.began))
	a.deadline.limit = limit
	c.SetContext(ctx)
}

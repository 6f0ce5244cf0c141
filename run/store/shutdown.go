package store

import (
	"context"
	"fmt"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// WriteShuttingDown records whether this host is shutting down, for other commands and for the next
// supervisor (discover.ShuttingDown).
func WriteShuttingDown(ctx context.Context, layout identity.Layout, now bool) error {
	file := layout.Serve().ShuttingDown()
	var err error
	if now {
		var boot string
		if boot, err = discover.BootID(ctx); err == nil {
			err = discover.ShutdownFile.Write(file, boot)
		}
	} else {
		err = statefile.Remove(file)
	}
	if err != nil {
		return fmt.Errorf("record that this host shuts down: %w", err)
	}
	return nil
}

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
)

// WriteShuttingDown records whether this host is shutting down, for other commands and for the next
// supervisor (discover.ShuttingDown).
func WriteShuttingDown(ctx context.Context, layout identity.Layout, now bool) error {
	file := layout.ShuttingDown()
	var err error
	if now {
		var boot string
		if boot, err = discover.BootID(ctx); err == nil {
			err = WriteState(file, []byte(boot), 0o644)
		}
	} else if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("record that this host shuts down: %w", err)
	}
	return nil
}

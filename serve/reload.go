package serve

import (
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/store"
)

// Supervisor returns the process ID of the root directory's supervisor (store.Supervisor).
func Supervisor(layout identity.Layout) int { return store.Supervisor(layout) }

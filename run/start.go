package run

import (
	"context"
)

// Start starts stopped pods again, from their checkpoints. The results and the error are those of
// Restart.
func (e *Engine) Start(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	return e.applyStored(ctx, pods, o)
}

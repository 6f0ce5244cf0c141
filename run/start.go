package run

import (
	"context"
)

// Start starts pods again that were stopped, from their checkpoints. Results and
// error are those of Apply.
func (e *Engine) Start(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	objects, err := e.checkpointed(pods)
	if err != nil {
		return nil, err
	}
	return e.Apply(ctx, objects, o)
}

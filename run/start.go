package run

import (
	"context"
)

// Start goes on with pods that were stopped.
func (e *Engine) Start(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	objects, err := e.checkpointed(pods)
	if err != nil {
		return nil, err
	}
	return e.Apply(ctx, objects, o)
}

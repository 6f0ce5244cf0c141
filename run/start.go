package run

import (
	"context"

	"github.com/podrun/podrun/run/node"
)

// Start starts stopped pods again, from their checkpoints. The results and the error are those of
// Restart.
func Start(ctx context.Context, n *node.Node, pods []Known, o ApplyOptions) ([]Result, error) {
	return applyStored(ctx, n, pods, o)
}

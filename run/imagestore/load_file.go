package imagestore

import (
	"context"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/run/node"
)

// LoadFile is Load for the archive in a file.
func LoadFile(ctx context.Context, n *node.Node, path string) (Report, error) {
	file, err := hostfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Load(ctx, n, file)
}

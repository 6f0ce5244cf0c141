package imagestore

import (
	"context"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/run/node"
)

// archivedImages returns the names of the images in the archives that podrun loaded from
// <root-dir>/images, if the archives still exist. These images count as in use, because a host
// without a network cannot pull them again.
func archivedImages(ctx context.Context, n *node.Node) []string {
	l := embedded.ReadLayout(n.Settings.RootDir)
	if n.Client.Endpoint() != l.Endpoint() {
		return nil // the images belong to another runtime
	}
	var names []string
	for archived, d := range embedded.ReadLoaded(ctx, l) {
		if _, err := os.Stat(filepath.Join(l.Images(), archived)); err == nil {
			names = append(names, d.Images...)
		}
	}
	return names
}

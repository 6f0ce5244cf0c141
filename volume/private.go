package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/safepath"
)

// openSource opens a path of the host that a volume mounts, and refuses it if it exposes one of the private paths.
// Admission has checked the path, but a container may have replaced a directory in it with a symlink since then.
// Therefore, the volume must mount the open file.
func openSource(ctx context.Context, path string, private []string) (*os.File, error) {
	file, err := safepath.OpenPath(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := refusePrivate(ctx, int(file.Fd()), path, private); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// refusePrivate returns an error if an open file of the host exposes one of the private paths, or if podrun cannot
// determine this.
func refusePrivate(ctx context.Context, fd int, path string, private []string) error {
	overlap, err := safepath.Overlap(ctx, fd, private)
	switch {
	case err != nil:
		return fmt.Errorf("compare %s with the directories of podrun and of the runtime: %w", path, err)
	case overlap != "":
		return &CheckError{Message: fmt.Sprintf("%s exposes %s, which gives access to other pods", path, overlap)}
	}
	return nil
}

// descriptor is the path of an open file of this process.
func descriptor(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }

// privateFor returns the private paths for a directory of a claim that podrun provisions. The directory of all claims may
// be in podrun's root directory, because the administrator has chosen it.
func (in Input) privateFor(path string) []string {
	return slices.DeleteFunc(slices.Clone(in.Private), func(p string) bool {
		return strings.HasPrefix(filepath.Clean(path), strings.TrimSuffix(filepath.Clean(p), "/")+"/")
	})
}

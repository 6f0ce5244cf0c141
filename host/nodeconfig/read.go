package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podrun/podrun/internal/hostfile"
)

// maxFile is the maximum size of a configuration file, in bytes.
const maxFile = 1 << 20

// DefaultFile is the settings file that every command reads if the file exists.
const DefaultFile = "/etc/podrun/config.yaml"

// DefaultSource is a directory of manifests. `podrun serve` runs them if neither the command
// line nor the settings specify another directory.
const DefaultSource = "/etc/podrun/manifests"

// ReadFile reads a settings file that the user specified. The file has at most 1 MiB and may be
// a pipe. The error has the path and wraps the system error.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	data, err := hostfile.ReadInput(ctx, path, maxFile)
	if errors.Is(err, hostfile.ErrTooLarge) {
		return nil, fmt.Errorf("read %s: larger than %d KiB, is it a settings file?", path, maxFile>>10)
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/rootless"
)

// maxFile is the maximum size of a configuration file, in bytes.
const maxFile = 1 << 20

// DefaultFile is root's settings file (ConfigFile).
const DefaultFile = "/etc/podrun/config.yaml"

// DefaultSource is root's directory of manifests. `podrun serve` runs them if neither the command line nor the
// settings specify another directory. That of an ordinary user is Settings.ManifestDir.
const DefaultSource = "/etc/podrun/manifests"

// ConfigFile returns the settings file that every command reads if the file exists: DefaultFile, or the one of an
// ordinary user.
func ConfigFile() string {
	if rootless.User() {
		return filepath.Join(rootless.ConfigDir(), filepath.Base(DefaultFile))
	}
	return DefaultFile
}

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

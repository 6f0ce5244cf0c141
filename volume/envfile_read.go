package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podrun/podrun/internal/safepath"
)

// maxEnvFile limits the size of an env file, because a container writes it.
const maxEnvFile = 1 << 20

// ReadEnvValue reads a variable from a file in a volume. It returns "" if the file or the
// variable does not exist. podrun resolves the path and its symlinks inside the volume, as it
// does for a subPath.
func ReadEnvValue(ctx context.Context, volume, file, key string) (string, error) {
	text, err := safepath.ReadFile(ctx, volume, file, maxEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("env file %q: %w", file, err)
	}
	value, err := envValue(string(text), key)
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file %q: %w", file, err)
	}
	return value, nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podrun/podrun/internal/safepath"
)

// maxEnvFile bounds an env file: a container wrote it.
const maxEnvFile = 1 << 20

// ReadEnvValue reads a variable from a file in a volume; empty if the file or the
// variable does not exist. Like a subPath, the path is resolved inside the
// volume, including its symlinks.
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

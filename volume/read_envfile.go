package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxEnvFile bounds an env file: a container wrote it.
const maxEnvFile = 1 << 20

// ReadEnvValue reads a variable of a file in a volume; empty if the file or the
// variable is not there. Like a subPath, the file is looked up inside the volume
// whatever symlinks are on the way.
func ReadEnvValue(ctx context.Context, volume, file, key string) (string, error) {
	text, err := readInside(ctx, volume, file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("env file %q: %w", file, err)
	}
	value, err := envValue(text, key)
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file %q: %w", file, err)
	}
	return value, nil
}

func readInside(ctx context.Context, volume, file string) (string, error) {
	root, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	fd, err := openInside(ctx, root, file)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", errors.New("it is not a file")
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	if err == nil && len(data) > maxEnvFile {
		err = fmt.Errorf("it has more than %d bytes", maxEnvFile)
	}
	return string(data), err
}

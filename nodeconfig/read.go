package nodeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// ReadFile reads a KubeletConfiguration file. The error names the path.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, readError(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, readError(path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read %s: larger than %d KiB, is it a KubeletConfiguration?", path, maxFile>>10)
	}
	return data, nil
}

func readError(path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("read %s: %w", path, err)
}

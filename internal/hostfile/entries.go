package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Entries returns the paths of the entries of a directory whose names begin with prefix and end
// with suffix, in the order of their names. It compares only names that it has read; unlike
// filepath.Glob, it finds entries of directories whose own paths contain *, ? or [. A directory
// that does not exist, or that is not a directory, has no entries. With an error, Entries returns
// the entries that it has read.
func Entries(dir, prefix, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		err = nil
	}
	var paths []string
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), prefix); ok && strings.HasSuffix(rest, suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

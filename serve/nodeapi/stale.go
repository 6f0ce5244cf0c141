package nodeapi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// staleAfter is the age from which a socket without a listener is considered a leftover of a
	// killed process: a starting process listens shortly after it has created the file.
	staleAfter = time.Minute
	// maxStale limits how many directories are searched for such sockets.
	maxStale = 1000
)

// removeStale removes sockets, and their directories, of killed supervisors of other root
// directories; parent contains a directory for each root directory. A supervisor replaces the
// socket of its own root directory, but the root directory of another socket may have been removed.
// Leftovers that cannot be removed are harmless.
func removeStale(ctx context.Context, parent string) {
	d, err := os.Open(parent)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxStale) // after an error, use the names that were read
	for _, name := range names {
		dir := filepath.Join(parent, name)
		sockets, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
		for _, path := range sockets {
			info, err := os.Lstat(path)
			if err != nil || info.Mode()&os.ModeSocket == 0 || time.Since(info.ModTime()) < staleAfter {
				continue
			}
			c, err := DialUnix(ctx, path)
			if err == nil {
				_ = c.Close()
			} else if errors.Is(err, unix.ECONNREFUSED) {
				_ = os.Remove(path)
				_ = os.Remove(dir) // fails if another socket exists
			}
		}
	}
}

package nodeapi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
)

const (
	// staleAfter is the minimum age at which podrun considers a socket without a listener to be a
	// leftover of a killed process. (A process that is starting listens shortly after it has
	// created the file.)
	staleAfter = time.Minute
	// maxStale limits the number of directories in which podrun searches for leftover sockets.
	maxStale = 1000
)

// removeStale removes the sockets of killed supervisors of other root directories, and the
// directories of these sockets. The directory parent contains a directory for each root directory.
// removeStale is necessary because a supervisor replaces only the socket of its own root directory,
// and the root directory of another socket may no longer exist. It ignores errors, because
// leftovers are harmless.
func removeStale(ctx context.Context, parent string) {
	d, err := os.Open(parent)
	if err != nil {
		return
	}
	defer d.Close()
	// After an error, podrun uses the names that were read.
	names, _ := d.Readdirnames(maxStale)
	for _, name := range names {
		dir := filepath.Join(parent, name)
		sockets, _ := hostfile.Entries(dir, "", ".sock")
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
				// The removal fails if the directory contains another socket.
				_ = os.Remove(dir)
			}
		}
	}
}

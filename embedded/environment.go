package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
)

// snapshotters are the snapshotters that podrun configures (Config).
var snapshotters = []string{"overlayfs", "native"}

// metaDB is containerd's database.
func (l Layout) metaDB() string {
	return filepath.Join(l.Containerd(), "io.containerd.metadata.v1.bolt", "meta.db")
}

// snapshotter is the directory of a snapshotter, with metadata.db and snapshots.
func (l Layout) snapshotter(name string) string {
	return filepath.Join(l.Containerd(), "io.containerd.snapshotter.v1."+name)
}

// databases lists the databases of the store.
func (l Layout) databases() []string {
	out := []string{l.metaDB()}
	for _, name := range snapshotters {
		out = append(out, filepath.Join(l.snapshotter(name), "metadata.db"))
	}
	return out
}

// readStoreFiles reads the input of storeFiles.gap.
func readStoreFiles(l Layout) (storeFiles, error) {
	var errs []error
	size := func(path string) int64 {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return -1
		case err != nil:
			errs = append(errs, err)
			return 1 // unknown
		}
		return info.Size()
	}
	has := func(dir string) bool {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		return len(entries) > 0
	}
	f := storeFiles{Meta: size(l.metaDB())}
	f.Blobs = has(filepath.Join(l.Containerd(), "io.containerd.content.v1.content", "blobs", "sha256"))
	f.Bundles = has(filepath.Join(l.Tasks(), "io.containerd.runtime.v2.task", "k8s.io"))
	for _, name := range snapshotters {
		dir := l.snapshotter(name)
		f.Snapshotters = append(f.Snapshotters, snapshotterFiles{Name: name, Metadata: size(filepath.Join(dir, "metadata.db")), Snapshots: has(filepath.Join(dir, "snapshots"))})
	}
	return f, errors.Join(errs...)
}

// probeStore returns an error if this host prevents containerd from using its store: the
// databases cannot be read completely, another process has them locked, or the store cannot be
// written. bbolt reports a failed read as an invalid database, or, because it maps the database, as
// a fault. No containerd must be running.
func probeStore(ctx context.Context, l Layout) error {
	for _, path := range l.databases() {
		if err := probeDatabase(ctx, path); err != nil {
			return err
		}
	}
	// The content is larger than a block, so that a full file system is detected.
	probe := filepath.Join(l.Containerd(), ".podrun-probe")
	err := hostfile.Write(probe, make([]byte, 64<<10), 0o600)
	return errors.Join(err, removeIfExists(probe))
}

// lockWithin limits the wait for the lock of a database.
const lockWithin = 5 * time.Second

// probeDatabase returns an error if this host prevents podrun from reading a database. A missing database is not an
// error.
func probeDatabase(ctx context.Context, path string) error {
	f, err := hostfile.OpenNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = hostfile.Unlock(f) }()
	// The threads of a process that has just crashed hold the lock until all of them have exited.
	bounded, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	if err := hostfile.AwaitFlock(bounded, f, unix.LOCK_EX); err != nil {
		return cmp.Or(context.Cause(ctx), fmt.Errorf("%s is locked by another process: %w", path, err))
	}
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		if _, err := f.Read(buffer); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package podlog

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Rotator limits the logs of containers as the kubelet does
// (pkg/kubelet/logs/container_log_manager.go, v1.36). It keeps no state: any process can
// continue where another was killed. It is safe for concurrent use, but of two concurrent
// rotations of one log, one fails.
type Rotator struct {
	// MaxSize is from which size on a log is rotated, in bytes; a negative one
	// rotates nothing.
	MaxSize int64
	// MaxFiles is how many files one log may have, the current one included; less
	// than 2 counts as 2.
	MaxFiles int
	// Workers is how many logs RotateAll rotates at a time; less than 1 counts as 1.
	Workers int
}

// Running is a running container with its log.
type Running struct {
	ID   string
	Path string // absolute
}

// RotateAll rotates the logs that have reached MaxSize, and has the runtime create
// those that are missing. reopen is CRI's ReopenContainerLog. Every log is tried;
// the error joins those of the containers, each with its ID, or wraps the cause of
// ctx. Containers that do not run must be left out: nothing more is written to their
// logs, and the runtime reopens none.
func (r *Rotator) RotateAll(ctx context.Context, containers []Running, reopen func(ctx context.Context, id string) error) error {
	if r.MaxSize < 0 {
		return nil
	}
	errs := make([]error, len(containers))
	var group errgroup.Group
	group.SetLimit(max(r.Workers, 1))
	for i, c := range containers {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil // reported once, below
			}
			err := r.rotateLarge(ctx, c.Path, func(ctx context.Context) error { return reopen(ctx, c.ID) })
			if err != nil {
				errs[i] = fmt.Errorf("container %s: rotate its log: %w", c.ID, err)
			}
			return nil
		})
	}
	_ = group.Wait() // its functions return no errors
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// rotateLarge rotates a log that has reached the limit.
func (r *Rotator) rotateLarge(ctx context.Context, path string, reopen func(context.Context) error) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() < r.MaxSize {
		return nil
	}
	return r.Rotate(ctx, path, reopen)
}

// Rotate compresses the previously rotated files of a log and removes the oldest beyond
// MaxFiles, renames the log to <path>.<time>, and calls reopen, after which the runtime
// must create the log again. If reopen fails, Rotate renames the log back.
//
// The next rotation completes one that was interrupted at any step. If the log is
// missing, a rotation was interrupted before reopen: then Rotate only calls reopen. An
// older file that cannot be compressed or removed is an error, but the log is rotated:
// otherwise it would grow without a limit. The error names the file; it wraps the cause
// of ctx if that ended the rotation.
func (r *Rotator) Rotate(ctx context.Context, path string, reopen func(ctx context.Context) error) error {
	dir, err := openDir(path)
	if err != nil {
		return err
	}
	defer dir.close()
	base := filepath.Base(path)
	info, err := dir.root.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reopen(ctx)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: it is not a regular file: remove it", path)
	}
	newest, tidied := r.tidy(ctx, dir, base)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(tidied, renameLatest(ctx, dir, base, newest, reopen))
}

// tidy removes what earlier rotations left behind and the oldest files, and
// compresses the others. It returns the time in the newest file's name; "" if there
// is none.
func (r *Rotator) tidy(ctx context.Context, dir *logDir, base string) (newest string, err error) {
	files, err := dir.rotated(base)
	if err != nil {
		return "", err
	}
	var errs []error
	remove := func(f rotatedFile) {
		if err := dir.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove an old log: %w", err))
		}
	}
	used := inUse(files)
	for _, f := range files {
		newest = max(newest, f.stamp)
		if !used[f.name] {
			remove(f)
		}
	}
	// The current file and the one that it is about to become count, too.
	var keep []rotatedFile
	for _, f := range files {
		if used[f.name] {
			keep = append(keep, f)
		}
	}
	excess := max(0, len(keep)-max(r.MaxFiles-2, 0))
	for i, f := range keep {
		switch {
		case i < excess:
			remove(f)
		case f.suffix == "":
			if err := compress(ctx, dir, f.name); err != nil && !errors.Is(err, errNotOnlyFile) {
				errs = append(errs, fmt.Errorf("compress an old log: %w", err))
			}
		}
	}
	return newest, errors.Join(errs...)
}

// inUse reports, by name, which rotated files contain lines that no other file has: not
// incomplete ones, nor those that have been compressed already.
func inUse(files []rotatedFile) map[string]bool {
	compressed := map[string]bool{}
	for _, f := range files {
		if f.suffix == compressSuffix {
			compressed[f.stamp] = true
		}
	}
	out := map[string]bool{}
	for _, f := range files {
		out[f.name] = f.suffix == compressSuffix || f.suffix == "" && !compressed[f.stamp]
	}
	return out
}

// compress replaces a rotated file by <name>.gz, which has the same mode and is
// complete on disk before the file is removed.
func compress(ctx context.Context, dir *logDir, name string) (err error) {
	from, info, err := dir.open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	tmp := name + tmpSuffix
	if err := dir.root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := dir.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = to.Chmod(info.Mode().Perm()) // whatever the umask: log collectors read it
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.root.Remove(tmp))
		}
	}()
	packed := gzip.NewWriter(to)
	if err == nil {
		_, err = io.Copy(packed, untilDone{ctx, from})
	}
	err = errors.Join(err, packed.Close())
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if err := dir.root.Rename(tmp, name+compressSuffix); err != nil {
		return err
	}
	return dir.root.Remove(name)
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// renameLatest renames the log to a rotated file's name and has it reopened.
func renameLatest(ctx context.Context, dir *logDir, base, newest string, reopen func(context.Context) error) error {
	rotated := base + "." + nextStamp(newest, time.Now())
	if err := dir.rename(base, rotated); err != nil {
		return err
	}
	err := reopen(ctx)
	if err == nil {
		return nil
	}
	// The runtime may have created the log and failed nevertheless: then it writes
	// to that one.
	if back := dir.rename(rotated, base); back != nil && !errors.Is(back, fs.ErrExist) {
		err = errors.Join(err, back)
	}
	return fmt.Errorf("reopen it: %w", err)
}

// nextStamp is the time for the name of the next rotated file: now, but at least a
// second after that of the newest one, so that the order of the names is that of the
// rotations whatever the clock does, and no file replaces another.
func nextStamp(newest string, now time.Time) string {
	stamp := now.Format(stampFormat)
	if stamp > newest {
		return stamp
	}
	last, err := time.Parse(stampFormat, newest)
	if err != nil {
		return stamp // there is none
	}
	return last.Add(time.Second).Format(stampFormat)
}

// rename renames a file of the directory, unless the new name is taken: then the
// error is fs.ErrExist.
func (d *logDir) rename(from, to string) error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// RemoveLog removes a container's log with all that rotations left of it. Files
// that are missing are no error. path is the log's, absolute.
func RemoveLog(path string) error {
	dir, err := openDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove a log: %w", err)
	}
	defer dir.close()
	base := filepath.Base(path)
	files, err := dir.rotated(base)
	errs := []error{err}
	for _, f := range append(files, rotatedFile{name: base}) {
		if err := dir.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the log %s: %w", path, err)
	}
	return nil
}

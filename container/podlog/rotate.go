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
// (pkg/kubelet/logs/container_log_manager.go, v1.36). It keeps no state, so any process can resume
// the work of a process that was killed. It is safe for concurrent use. However, if two rotations
// of the same log are concurrent, one of them fails.
type Rotator struct {
	// MaxSize is the size, in bytes, at which podrun rotates a log. A negative value disables
	// rotation.
	MaxSize int64
	// MaxFiles is the maximum number of files of a log, including the current one. Values less
	// than 2 count as 2.
	MaxFiles int
	// Workers is the number of logs that RotateAll rotates concurrently. Values less than 1 count
	// as 1.
	Workers int
	// Ended reports whether a container has ended or was removed. RotateAll calls Ended if it cannot
	// rotate the log of a container, and ignores the failure if the result is true. Ended may be nil.
	Ended func(ctx context.Context, id string) bool
	// Ours reports whether podrun may rotate the log of a container. RotateAll calls it only for logs
	// that it would rotate. Ours may be nil, which means that podrun may rotate all logs.
	Ours func(Running) bool
}

// Running is a running container with its log.
type Running struct {
	ID   string
	Path string // an absolute path
}

// RotateAll rotates the logs that have reached MaxSize. If a log is missing, it makes the runtime
// create the log. The function reopen is CRI's ReopenContainerLog. RotateAll continues after
// errors. It returns an error that joins the errors of the containers, each with the container's
// ID, or that wraps the cause of ctx. The caller must omit containers that are not running, because
// the runtime no longer writes to their logs and does not reopen them.
func (r *Rotator) RotateAll(ctx context.Context, containers []Running, reopen func(ctx context.Context, id string) error) error {
	if r.MaxSize < 0 {
		return nil
	}
	errs := make([]error, len(containers))
	var group errgroup.Group
	group.SetLimit(max(r.Workers, 1))
	for i, c := range containers {
		if ctx.Err() != nil {
			break // the error is reported below
		}
		if !r.isLarge(c.Path) || r.Ours != nil && !r.Ours(c) {
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil // the error is reported once, below
			}
			err := r.Rotate(ctx, c.Path, func(ctx context.Context) error { return reopen(ctx, c.ID) })
			if err != nil && (r.Ended == nil || !r.Ended(ctx, c.ID)) {
				errs[i] = fmt.Errorf("container %s: rotate its log: %w", c.ID, err)
			}
			return nil
		})
	}
	// The functions return no errors.
	_ = group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// isLarge reports whether a log has reached the limit or is missing.
func (r *Rotator) isLarge(path string) bool {
	info, err := os.Lstat(path)
	return err != nil || !info.Mode().IsRegular() || info.Size() >= r.MaxSize
}

// Rotate compresses the previously rotated files of a log, and removes the oldest ones beyond
// MaxFiles. It then renames the log to <path>.<time>, and calls reopen, which must make the runtime
// create the log again. If reopen fails, Rotate renames the log back.
//
// If a rotation is interrupted at any step, the next rotation completes it. A missing log means
// that a rotation was interrupted before reopen; in this case, Rotate only calls reopen. If Rotate
// cannot compress or remove an older file, it returns an error, but still rotates the log, because
// the log would otherwise grow without limit. The error names the file. If ctx ended, the error
// wraps the cause of ctx.
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

// tidy removes the leftovers of earlier rotations and the oldest files, and compresses the other
// files. It returns the time in the name of the newest file, or "" if there is none.
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
	// The limit includes the current file, and the new file that a rotation will add.
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

// inUse returns the names of the rotated files whose lines no other file contains: it omits
// incomplete files, and files that already have a compressed copy.
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

// compress replaces a rotated file with <name>.gz, which has the same mode. It removes the original
// only after the new file is complete on disk.
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
	// The umask must not affect the mode, because log collectors read the file.
	err = to.Chmod(info.Mode().Perm())
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

// untilDone is a reader that returns an error when its context has ended.
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

// renameLatest renames the log to the name of a rotated file, and makes the runtime reopen the log.
func renameLatest(ctx context.Context, dir *logDir, base, newest string, reopen func(context.Context) error) error {
	rotated := base + "." + nextStamp(newest, time.Now())
	if err := dir.rename(base, rotated); err != nil {
		return err
	}
	err := reopen(ctx)
	if err == nil {
		return nil
	}
	// If the runtime failed after it had created the new log, it writes to that file, which must
	// remain.
	if back := dir.rename(rotated, base); back != nil && !errors.Is(back, fs.ErrExist) {
		err = errors.Join(err, back)
	}
	return fmt.Errorf("reopen it: %w", err)
}

// nextStamp returns the time for the name of the next rotated file: the current time, or a second after the time of
// the newest file if that is later. This keeps the names in the order of the rotations even if the clock is changed,
// and ensures that no file replaces another.
func nextStamp(newest string, now time.Time) string {
	stamp := now.Format(stampFormat)
	if stamp > newest {
		return stamp
	}
	last, err := time.Parse(stampFormat, newest)
	if err != nil {
		// There is no rotated file yet.
		return stamp
	}
	return last.Add(time.Second).Format(stampFormat)
}

// rename renames a file in the directory. It returns fs.ErrExist if the new name exists.
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

// RemoveLog removes a container's log and its rotated files. It ignores missing files. The argument
// path is the absolute path of the log.
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

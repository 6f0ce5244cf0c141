package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/safepath"
)

// MakeContainerDir creates the directory of a container for its termination logs.
func MakeContainerDir(layout identity.Layout, uid, container string) error {
	dir := layout.Pod(uid).Container(container)
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := safepath.MakeDir(d, dirMode); err != nil {
			return fmt.Errorf("container %s: %w", container, err)
		}
	}
	return nil
}

// MakeTerminationLog creates the empty file for a container's termination message in the
// container's directory (MakeContainerDir), and returns its path. The argument name consists of 8
// hexadecimal digits, which are different for each attempt. Any user may write to the file, because
// the container's user is not known yet.
func MakeTerminationLog(layout identity.Layout, uid, container, name string) (string, error) {
	path := filepath.Join(layout.Pod(uid).Container(container), name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return "", fmt.Errorf("container %s: create its termination log: %w", container, err)
	}
	defer f.Close()
	if err := f.Chmod(0o666); err != nil {
		return "", fmt.Errorf("container %s: create its termination log: %w", container, err)
	}
	return path, nil
}

// PruneTerminationLogs removes the termination logs of earlier runs of a container, if the runtime
// no longer has these runs. The argument keep contains the paths of the logs to keep. It returns an
// error that joins the errors of the individual files.
func PruneTerminationLogs(layout identity.Layout, uid, container string, keep []string) error {
	dir := layout.Pod(uid).Container(container)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("container %s: list its termination logs: %w", container, err)
	}
	var errs []error
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.Type().IsRegular() && !slices.Contains(keep, path) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// ReclaimFiles frees the disk space of the files to which a pod's containers could write. It must
// be called only when the containers will not run again. It empties the hosts file, as the kubelet
// does (CVE-2020-8557), and truncates each termination log to its last keep bytes. It can be
// repeated. It returns an error that joins the errors of the individual files.
func ReclaimFiles(layout identity.Layout, uid string, keep int64) error {
	errs := []error{keepTail(layout.Pod(uid).EtcHosts(), 0)}
	containers, err := hostfile.Entries(layout.Pod(uid).Containers(), "", "")
	errs = append(errs, err)
	for _, dir := range containers {
		logs, err := hostfile.Entries(dir, "", "")
		errs = append(errs, err)
		for _, path := range logs {
			errs = append(errs, keepTail(path, keep))
		}
	}
	return errors.Join(errs...)
}

// keepTail truncates a regular file to its last keep bytes. It ignores symlinks and files
// that do not exist.
func keepTail(path string, keep int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("truncate %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() <= keep {
		return err
	}
	tail := make([]byte, keep)
	if _, err := f.ReadAt(tail, info.Size()-keep); err != nil {
		return fmt.Errorf("truncate %s: %w", path, err)
	}
	// The file is truncated first, because the disk may be full.
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("truncate %s: %w", path, err)
	}
	if _, err := f.WriteAt(tail, 0); err != nil {
		return fmt.Errorf("truncate %s: %w", path, err)
	}
	return nil
}

// WriteCheckpoint writes the pod's checkpoint, which may contain Secrets. The checkpoint is
// not durable until SyncCheckpoint returns.
func WriteCheckpoint(layout identity.Layout, uid string, data []byte) error {
	return hostfile.WriteUnsynced(layout.Pod(uid).Checkpoint(), data, 0o600)
}

// SyncCheckpoint makes the pod's checkpoint durable.
func SyncCheckpoint(layout identity.Layout, uid string) error {
	return hostfile.Sync(layout.Pod(uid).Checkpoint())
}

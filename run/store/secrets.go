package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/volume"
)

const (
	// secretsSize is the size of a root directory's tmpfs, in bytes: enough for four checkpoints of the
	// maximum size.
	secretsSize = 4 * identity.MaxCheckpoint
	// secretsLockTimeout limits the wait for the lock that a process holds while it writes a file in
	// memory.
	secretsLockTimeout = 30 * time.Second
)

// LostSecrets returns the error (kind Failed) for a pod whose Secrets podrun kept in memory and has
// lost.
func LostSecrets(id identity.Pod) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + id.String(),
		Err:  errors.New("its Secrets were lost, for example at a reboot, because podrun kept them only in memory (--secrets=memory)"),
		Hint: "apply its manifest again, with its Secrets"}
}

// writeSecretFile writes a file with mode 0600 below SecretsDir. It creates SecretsDir first if
// necessary, either in an existing file system in memory, or as the mount point of a new tmpfs. The
// file is never synced to a disk.
func writeSecretFile(layout identity.Layout, path string, data []byte) error {
	err := underSecretsLock(layout, func() error {
		if err := makeSecretsDir(layout); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return hostfile.WriteUnsynced(path, data, 0o600)
	})
	if CannotWrite(err) {
		return &problem.Error{Kind: problem.Refused, Op: "keep Secrets in memory", Err: err,
			Hint: "delete pods with Secrets, or use --secrets=disk"}
	}
	if err != nil {
		return fmt.Errorf("keep Secrets in memory: %w", err)
	}
	return nil
}

// underSecretsLock calls do while it holds a lock that prevents other podrun processes, with any root
// directory, from creating or removing a SecretsDir. The lock is on the parent directory, which only root can
// access. Otherwise another user could hold the lock, or replace the directory.
func underSecretsLock(layout identity.Layout, do func() error) error {
	around := filepath.Dir(string(layout.Secrets()))
	for _, dir := range []string{filepath.Dir(around), around} {
		if err := makePrivate(dir); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), secretsLockTimeout)
	defer cancel()
	l, err := AwaitLock(ctx, around, nil, func() (*FileLock, error) {
		f, err := FlockFile(around, unix.O_RDONLY|unix.O_DIRECTORY)
		if f == nil || err != nil {
			return nil, err
		}
		return &FileLock{File: f}, nil
	})
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// makePrivate creates a directory with mode 0700, or checks that an existing one belongs to this user.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s has owner %d and mode %o, but must be a directory with owner %d and mode 700: remove it", dir, st.Uid, st.Mode, os.Geteuid())
	}
	return nil
}

// makeSecretsDir creates SecretsDir in memory. The lock must be held.
func makeSecretsDir(layout identity.Layout) error {
	dir := string(layout.Secrets())
	if err := makePrivate(dir); err != nil {
		return err
	}
	memory, err := isInMemory(dir)
	if memory || err != nil {
		return err
	}
	faultpoint.At("secrets/mount")
	defer faultpoint.At("secrets/mounted")
	if err := volume.MountTmpfs(dir, secretsSize, unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	return nil
}

// isInMemory reports whether a directory is in a tmpfs or ramfs.
func isInMemory(dir string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false, fmt.Errorf("%s: %w", dir, err)
	}
	return int64(st.Type) == unix.TMPFS_MAGIC || int64(st.Type) == unix.RAMFS_MAGIC, nil
}

// dropSecrets removes a pod's files in memory, except the file named keep. If keep is "", it
// removes all of them. It also removes directories that become empty, and unmounts the tmpfs if it
// becomes empty.
func dropSecrets(layout identity.Layout, uid, keep string) error {
	if !identity.SafeUID(uid) {
		return fmt.Errorf("remove the Secrets of pod %q: its UID is not safe in a path", uid)
	}
	dir := layout.Secrets().Pod(uid)
	return dropFiles(layout, dir, func(name string) bool { return name != keep })
}

// dropFiles removes the chosen files of a directory below SecretsDir, and the directories that become
// empty.
func dropFiles(layout identity.Layout, dir string, chosen func(name string) bool) error {
	if top, err := os.ReadDir(string(layout.Secrets())); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		// Users other than root cannot access the directory, and have no files in it.
		return nil
	} else if len(top) > 0 && !hostfile.IsDir(dir) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	left := len(entries)
	for _, e := range entries {
		if chosen(e.Name()) {
			left--
		}
	}
	if err != nil || left == len(entries) && left > 0 {
		return err
	}
	return underSecretsLock(layout, func() error {
		faultpoint.At("secrets/remove")
		defer faultpoint.At("secrets/removed")
		var errs []error
		for _, e := range entries {
			if !chosen(e.Name()) {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove Secrets: %w", err))
			}
		}
		removeEmpty(layout, dir)
		return errors.Join(errs...)
	})
}

// removeEmpty removes a directory if it is empty, and then each parent up to SecretsDir that becomes
// empty. The lock must be held.
func removeEmpty(layout identity.Layout, dir string) {
	top := string(layout.Secrets())
	for ; dir != top; dir = filepath.Dir(dir) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	if entries, err := os.ReadDir(top); err != nil || len(entries) > 0 {
		return
	}
	var inner, outer unix.Stat_t
	if unix.Lstat(top, &inner) == nil && unix.Lstat(filepath.Dir(top), &outer) == nil && inner.Dev != outer.Dev {
		faultpoint.At("secrets/unmount")
		_ = unix.Unmount(top, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		faultpoint.At("secrets/unmounted")
	}
	_ = os.Remove(top)
}

// sweepSecrets removes the Secrets of pods that have no checkpoint, and SecretsDir if it is empty. A
// podrun process that was killed may leave these behind. The node's lock must be held, because
// podrun writes the Secrets of new pods under it.
func sweepSecrets(layout identity.Layout) error {
	entries, err := os.ReadDir(layout.Secrets().Pods())
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	errs := []error{err}
	for _, e := range entries {
		if identity.SafeUID(e.Name()) && !HasCheckpoint(layout, e.Name()) {
			errs = append(errs, dropSecrets(layout, e.Name(), ""))
		}
	}
	none := func(string) bool { return false }
	errs = append(errs, sweepGoodSecrets(layout))
	return errors.Join(append(errs, dropFiles(layout, layout.Secrets().Pods(), none))...)
}

// RemovePod removes the data that podrun stores for a pod: its Secrets in memory and its directory
// (volume.Remove). It removes the directory last, because podrun finds the pod by its directory. It
// syncs the removal, unless the file system is not writable. Without the sync, a supervisor could
// find the checkpoint after a power failure, and start the deleted pod.
func RemovePod(ctx context.Context, layout identity.Layout, uid string) error {
	if err := RemoveReserved(ctx, layout, uid); err != nil {
		return err
	}
	if err := hostfile.SyncDir(layout.PodsDir()); err != nil && !CannotWrite(err) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pod %s: %w", uid, err)
	}
	return nil
}

// RemoveReserved is RemovePod for a pod whose checkpoint has not been synced yet: it does not sync the
// removal. The node's lock must be held.
func RemoveReserved(ctx context.Context, layout identity.Layout, uid string) error {
	return errors.Join(dropSecrets(layout, uid, ""), volume.Remove(ctx, layout, uid))
}

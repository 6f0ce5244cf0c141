package volume

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/safepath"
)

// The names, in the directory of all claims, of directories that are not claims: a new directory that does not have
// its mode yet, and directories that podrun is deleting. The name of a claim's directory never begins with a dot.
const (
	newClaimName     = ".new"
	deletedClaimName = ".deleted-"
)

// claimMode is the mode of a claim's new directory. It is the mode of an emptyDir, because
// containers may run as any user. Other users of the host cannot access the directory, because
// its parent, the directory of all claims, has dirMode.
const claimMode = 0o777

// lockClaims opens the directory of all claims and locks it. The lock excludes other podrun
// processes that create, bind or delete directories of claims, regardless of their root
// directories. hostfile.Unlock releases the lock. If the directory does not exist, lockClaims
// creates it if create is true; otherwise it returns fs.ErrNotExist.
func lockClaims(ctx context.Context, path string, create bool) (*os.File, error) {
	if create {
		if err := hostfile.MakeDirs(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := hostfile.MakeDirs(path, dirMode); err != nil {
			return nil, err
		}
	}
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := hostfile.Lock(ctx, dir, "the process that has locked "+path); err != nil {
		return nil, err
	}
	return dir, nil
}

// bindClaim bind-mounts the claim's directory at target. If the directory is missing, bindClaim
// creates it first. It holds the lock during both steps. If another process deletes claims, either
// that process finds the mount, or bindClaim creates the directory after the deletion.
func (l *Local) bindClaim(ctx context.Context, target string) error {
	claims, err := lockClaims(ctx, filepath.Dir(l.Path), true)
	if err != nil {
		return err
	}
	defer func() { _ = hostfile.Unlock(claims) }()
	dir, err := openClaim(int(claims.Fd()), filepath.Base(l.Path))
	if errors.Is(err, unix.ENOENT) {
		if err = makeClaim(int(claims.Fd()), filepath.Base(l.Path)); err == nil {
			dir, err = openClaim(int(claims.Fd()), filepath.Base(l.Path))
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := refusePrivate(ctx, dir, l.Path, l.Private); err != nil {
		return err
	}
	return l.bind(fmt.Sprintf("/proc/self/fd/%d", dir), target)
}

// openClaim opens a claim's directory. The directory may be a mount point but not a symlink,
// because podrun must not mount or delete a directory that a container can replace.
func openClaim(claims int, name string) (int, error) {
	return unix.Openat(claims, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// makeClaim creates a claim's directory. It sets the mode before the directory appears under its
// final name, because an app may change the mode later, and podrun must not set it again. The
// caller holds the lock, so makeClaim can use a directory that a killed process left behind under
// the temporary name.
func makeClaim(claims int, name string) error {
	if err := unix.Mkdirat(claims, newClaimName, claimMode); err != nil && err != unix.EEXIST {
		return err
	}
	dir, err := openClaim(claims, newClaimName)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Fchmod(dir, claimMode); err != nil {
		return err
	}
	if err := unix.Renameat2(claims, newClaimName, claims, name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return unix.Fsync(claims)
}

// InUseError reports that podrun did not delete a claim's directory because it is mounted.
type InUseError struct{ Path, Mountpoint string }

// Error returns a message with both paths.
func (e *InUseError) Error() string { return e.Path + " is in use: it is mounted at " + e.Mountpoint }

// DeleteClaims deletes the directories of claims with their content, except those that the function
// used returns. It also calls release, which ends the caller's own use of the claims. All paths
// must be in the same directory. DeleteClaims calls used and release while it holds the lock on the
// directory of all claims: if several callers use a directory, the last one deletes it, and if
// another pod begins to use a directory, the directory remains. It is not an error if a directory
// does not exist. If DeleteClaims returns an error, it has not called release, or release has
// failed, and the caller can repeat the call. DeleteClaims does not delete a directory that is
// mounted; in this case, it returns an *InUseError.
func DeleteClaims(ctx context.Context, paths []string, used func() (map[string]bool, error), release func() error) error {
	dir := filepath.Dir(paths[0])
	for {
		claims, err := lockClaims(ctx, dir, false)
		if errors.Is(err, fs.ErrNotExist) {
			return release()
		}
		if err != nil {
			return err
		}
		done, err := deleteLocked(ctx, claims, paths, used, release)
		if err = errors.Join(err, hostfile.Unlock(claims)); done || err != nil {
			return err
		}
	}
}

// deleteLocked implements DeleteClaims. The directory of all claims must be locked. If deleteLocked
// had to release the lock in order to delete content, done is false, and the caller must call
// deleteLocked again.
func deleteLocked(ctx context.Context, claims *os.File, paths []string, used func() (map[string]bool, error), release func() error) (done bool, err error) {
	inUse, err := used()
	if err != nil {
		return false, err
	}
	for _, path := range paths {
		if inUse[path] {
			continue
		}
		if err := discardClaim(claims, path); err != nil {
			return false, err
		}
	}
	discarded, err := discardedClaims(claims)
	if err != nil {
		return false, err
	}
	if len(discarded) == 0 {
		return true, release()
	}
	// The content may be large. Deleting it does not require the lock, because no pod can find the
	// renamed directory.
	if err := hostfile.Flock(claims, unix.LOCK_UN); err != nil {
		return false, err
	}
	var errs []error
	for _, name := range discarded {
		errs = append(errs, safepath.Remove(ctx, int(claims.Fd()), name))
	}
	return false, errors.Join(errs...)
}

// discardClaim renames a claim's directory, so that no pod can find it.
func discardClaim(claims *os.File, path string) error {
	if filepath.Dir(path) != claims.Name() {
		return fmt.Errorf("delete %s: it is not in %s", path, claims.Name())
	}
	mounted, err := claimMounts(int(claims.Fd()), filepath.Base(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(mounted) > 0 {
		return &InUseError{Path: path, Mountpoint: mounted[0]}
	}
	err = unix.Renameat2(int(claims.Fd()), filepath.Base(path), int(claims.Fd()), deletedClaimName+rand.Text(), unix.RENAME_NOREPLACE)
	if err != nil && err != unix.ENOENT {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// discardedClaims returns the directories that this process, or a killed one, renamed in order to
// delete them.
func discardedClaims(claims *os.File) (names []string, err error) {
	paths, err := hostfile.Entries(claims.Name(), deletedClaimName, "")
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names, err
}

// claimMounts returns the mount points of a claim's directory; or nil if the directory does not
// exist.
func claimMounts(claims int, name string) ([]string, error) {
	dir, err := openClaim(claims, name)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open it: %w", err)
	}
	defer unix.Close(dir)
	mounts, err := safepath.MountsOf(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range mounts {
		out = append(out, m.Mountpoint)
	}
	return out, nil
}

// DropClaims removes directories of the plan's claims after a failed start. It removes a directory
// only if the directory is unchanged since makeClaim created it: empty, not mounted, and with the
// same mode and owner. The next start creates the same directory again. DropClaims can be repeated.
func DropClaims(ctx context.Context, p Plan) error {
	var errs []error
	for _, v := range p.Volumes {
		if v.Setup.Kind == SetupLocal && v.Setup.Local.Create {
			errs = append(errs, dropClaim(ctx, v.Setup.Local.Path))
		}
	}
	return errors.Join(errs...)
}

func dropClaim(ctx context.Context, path string) error {
	claims, err := lockClaims(ctx, filepath.Dir(path), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = hostfile.Unlock(claims) }()
	name := filepath.Base(path)
	var st unix.Stat_t
	err = unix.Fstatat(int(claims.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&claimMode != claimMode || st.Uid != 0 {
		// The directory is missing, or an administrator or an app has changed it.
		return nil
	}
	mounted, err := claimMounts(int(claims.Fd()), name)
	if err != nil || len(mounted) > 0 {
		return err
	}
	err = unix.Unlinkat(int(claims.Fd()), name, unix.AT_REMOVEDIR)
	if err != nil && err != unix.ENOENT && err != unix.ENOTEMPTY && err != unix.EBUSY {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

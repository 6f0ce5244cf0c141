package safepath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// These flags determine how the kernel resolves a path, while a container may replace
// components of the path (CVE-2017-1002101, CVE-2021-25741). They require Linux
// 5.6.
const (
	// resolveInRoot treats the volume as the root: absolute symlinks and ".." do not lead out of
	// it.
	resolveInRoot = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	// resolveBeneath fails with EXDEV at an absolute symlink. It also fails at a symlink that
	// leaves the volume, even if the path leads back into the volume.
	resolveBeneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	// resolveNoLinks fails with ELOOP at any symlink.
	resolveNoLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
)

// ErrOutside means that a path leads out of the volume.
var ErrOutside = errors.New("it leads outside the volume")

// OpenSubpath opens a path inside the directory volume with O_PATH, for a bind mount. It creates
// missing components as directories with the mode of the volume's directory. It follows symlinks
// like the host, but requires that the result is inside the volume. The kubelet does the same
// (doBindSubPath in pkg/volume/util/subpath). Errors are: ErrOutside if the result is outside;
// fs.ErrNotExist if a symlink is dangling or the volume does not exist; EAGAIN if another process
// renames files continuously; ENOSYS before Linux 5.6; and the context's cause if the context ends.
func OpenSubpath(ctx context.Context, volume, subpath string) (*os.File, error) {
	root, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open volume %s: %w", volume, err)
	}
	defer unix.Close(root)
	v := openVolume{root: root, path: volume}
	fd, err := v.open(ctx, subpath)
	if errors.Is(err, unix.ENOENT) {
		if err := v.makeDirs(ctx, subpath); err != nil {
			return nil, fmt.Errorf("create subPath %q of %s: %w", subpath, volume, err)
		}
		fd, err = v.open(ctx, subpath)
	}
	if err != nil {
		return nil, fmt.Errorf("open subPath %q of %s: %w", subpath, volume, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(volume, subpath)), nil
}

// These constants are the number of attempts of openat2 after EAGAIN, and the pause between them
// after the first hundred attempts. The kernel returns EAGAIN if anything on the host was renamed
// or mounted during the call. If a container renames files continuously, nearly every call fails.
const (
	againTries = 1000
	againAt    = 100
	againPause = time.Millisecond
)

// openVolume is a volume in which OpenSubpath opens a path.
type openVolume struct {
	root int // descriptor opened with O_PATH
	// path is the path of root on the host.
	path string
}

// open opens a path below the volume's root. If a path leaves the volume, even temporarily, the kernel may be unable
// to resolve it inside the volume. In this case, open resolves the symlinks itself and opens the result without
// following symlinks. Therefore, the result is inside the volume, regardless of changes that a container makes
// concurrently.
func (v openVolume) open(ctx context.Context, path string) (int, error) {
	fd, err := openat2(ctx, v.root, path, resolveBeneath)
	if !errors.Is(err, unix.EXDEV) {
		return fd, err
	}
	inside, err := Await(ctx, v.path, func() (string, error) { return resolve(v.path, path) })
	if err != nil {
		return -1, err
	}
	return openat2(ctx, v.root, inside, resolveNoLinks)
}

// resolve evaluates the symlinks in a path inside a volume. It returns the result relative to
// the volume.
func resolve(volume, path string) (string, error) {
	base, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(volume, path))
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		// The error does not contain the path, which may reveal paths of the host.
		return "", failed.Err
	}
	if err != nil {
		return "", err
	}
	inside, err := filepath.Rel(base, real)
	if err != nil || !filepath.IsLocal(inside) {
		return "", ErrOutside
	}
	return inside, nil
}

func openat2(ctx context.Context, root int, path string, how uint64) (int, error) {
	fd, err := tryAgain(ctx, func() (int, error) {
		return unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: how})
	})
	switch {
	case errors.Is(err, unix.EAGAIN):
		return -1, fmt.Errorf("%w: files are renamed continuously while podrun opens the path (%d attempts): stop the process that renames them", err, againTries)
	case errors.Is(err, unix.ENOSYS):
		return -1, fmt.Errorf("openat2: %w: subPath requires Linux 5.6 or newer", err)
	}
	return fd, err
}

// tryAgain calls open until the result is not EAGAIN, but at most againTries times. It stops when
// the context ends.
func tryAgain(ctx context.Context, open func() (int, error)) (int, error) {
	for try := 1; ; try++ {
		fd, err := open()
		if !errors.Is(err, unix.EAGAIN) || try >= againTries {
			return fd, err
		}
		if ctx.Err() != nil {
			return -1, context.Cause(ctx)
		}
		if try >= againAt {
			time.Sleep(againPause)
		}
	}
}

// makeDirs creates the missing directories of a path, one after the other. It creates each of them
// in a parent directory that it opens inside the volume.
func (v openVolume) makeDirs(ctx context.Context, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(v.root, &st); err != nil {
		return err
	}
	at := "."
	for _, name := range strings.Split(filepath.Clean(path), "/") {
		if err := v.makeDir(ctx, at, name, st.Mode); err != nil {
			return err
		}
		at = filepath.Join(at, name)
	}
	return nil
}

// makeDir creates a directory with the mode of the volume, including the setuid, setgid and
// sticky bits, like the kubelet's SafeMakeDir. If the volume has mode 3777, users of a subPath
// must not be able to remove each other's files.
func (v openVolume) makeDir(ctx context.Context, parent, name string, mode uint32) error {
	dir, err := v.open(ctx, parent)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Mkdirat(dir, name, mode&0o777)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	// mkdir(2) ignores the setuid and setgid bits, and the umask clears other bits, so makeDir sets
	// the mode separately.
	made, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	return Chmod(made, mode)
}

// targetMode is the mode of the target directory of a bind mount, and of the target's parents.
const targetMode = 0o750

// Bind binds the open file source, with the mounts below it, at the path target. It creates the
// target. The target is a directory if source is a directory, and otherwise a file. It must be
// below a directory to which only root can write.
func Bind(source *os.File, target string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &st); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), targetMode); err != nil {
		return err
	}
	if err := makeTarget(target, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	from := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source.Name(), target, err)
	}
	return nil
}

func makeTarget(target string, dir bool) error {
	if dir {
		return MakeDir(target, targetMode)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// ReadFile reads a regular file of at most limit bytes inside the directory volume. It follows
// symlinks as if the volume were the root, like the kubelet for fileKeyRef (securejoin). The error
// is fs.ErrNotExist if the file does not exist, the context's cause if the context has ended, and
// another error if the file is too large or not regular.
func ReadFile(ctx context.Context, volume, file string, limit int64) ([]byte, error) {
	root, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := openat2(ctx, root, file, resolveInRoot)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("it is not a file")
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

package safepath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeDir creates one directory with exactly the given mode, regardless of the umask. An existing
// directory keeps its mode. If path is anything else, such as a symlink, MakeDir returns an error.
// MakeDir protects only the last element of path. Only root may have write access to the parent
// directory.
func MakeDir(path string, mode fs.FileMode) error {
	switch err := os.Mkdir(path, mode.Perm()); {
	case err == nil:
		return os.Chmod(path, mode)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s exists and is not a directory", path)
	}
	return nil
}

// MakeDirs creates the missing directories of a path relative to dir, with mode 0755. It opens the
// last directory and returns its descriptor, which the caller must close. It does not follow
// symlinks: if the path contains one, the error is ELOOP or ENOTDIR.
func MakeDirs(dir int, at string) (int, error) {
	current, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(at, "/") {
		next, err := makeDirAt(current, name)
		unix.Close(current)
		if err != nil {
			return -1, err
		}
		current = next
	}
	return current, nil
}

// makeDirAt creates a directory with mode 0755, regardless of the umask, unless the directory
// exists. It then opens the directory.
func makeDirAt(dir int, name string) (int, error) {
	made := unix.Mkdirat(dir, name, 0o755)
	if made != nil && made != unix.EEXIST {
		return -1, made
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil && made == nil {
		if err = unix.Fchmod(fd, 0o755); err != nil {
			unix.Close(fd)
		}
	}
	return fd, err
}

// Writer writes new files. It remembers which permission bits the umask clears. Therefore, it need
// not set the mode of each of the thousands of files of a pod separately. The zero value is ready
// to use. All directories that a caller passes to one Writer must be on the same volume.
type Writer struct {
	// These are the permission bits that the umask kept and cleared when earlier files were
	// created.
	kept, lost uint32
}

// WriteNew writes a new file with exactly the given permission bits, regardless of the umask. The file
// belongs to uid, or to the user of this process if uid is nil. The error is EEXIST if the name exists, even
// if it is a symlink.
func (w *Writer) WriteNew(dir int, name string, mode uint32, uid *int64, data []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	err = writeAll(fd, data)
	if err == nil && uid != nil {
		err = unix.Fchown(fd, int(*uid), -1)
	}
	if err == nil {
		err = w.setMode(fd, mode)
	}
	return errors.Join(err, unix.Close(fd))
}

// setMode sets the mode of a file if the umask cleared some of its bits when it was created.
func (w *Writer) setMode(fd int, mode uint32) error {
	if mode&^w.kept == 0 {
		return nil
	}
	if mode&w.lost == 0 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		w.kept |= mode & st.Mode
		w.lost |= mode &^ st.Mode
		if mode&w.lost == 0 {
			return nil
		}
	}
	return unix.Fchmod(fd, mode)
}

// writeAll writes data to a regular file. An os.File would need an additional system call and a
// finalizer for each of the thousands of files of a pod.
func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
		data = data[n:]
	}
	return nil
}

// HasContent reports whether the file at path below dir is a regular file with exactly the given
// content. It returns false if the path contains a symlink, or the file is on another mount or
// cannot be read.
func HasContent(dir int, path string, want []byte) bool {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return false
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(want)) {
		return false
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(len(want))+1))
	return err == nil && bytes.Equal(data, want)
}

// Readlink reads the symlink name in dir. The error is ENOENT if name does not exist, and EINVAL if
// name is not a symlink.
func Readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/safepath"
)

// WriteHosts replaces the content of the pod's /etc/hosts. The kubelet does this for each container
// that it starts (ensureHostsFile in pkg/kubelet). WriteHosts writes the file in place, because
// running containers have mounted the file itself, and would still see the old file if a rename
// replaced it. Unlike the kubelet, it does not truncate the file before it writes, so that these
// containers never read an empty file.
//
// An older version of podrun may have let the runtime create a directory at the path, which
// WriteHosts removes. Running containers that have mounted the directory keep it (HostsLost).
func WriteHosts(ctx context.Context, layout identity.Layout, uid string, content []byte) error {
	path := layout.Pod(uid).EtcHosts()
	if HostsLost(layout, uid) {
		if err := removeDir(ctx, path); err != nil {
			return fmt.Errorf("write the pod's hosts file: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return fmt.Errorf("write the pod's hosts file: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replaceContent(f, content)
}

// HostsLost reports whether the pod's /etc/hosts is a directory. A container that mounts it resolves
// none of the names that the file should contain.
func HostsLost(layout identity.Layout, uid string) bool {
	return hostfile.IsDir(layout.Pod(uid).EtcHosts())
}

// removeDir removes a directory in the pod's directory with its content.
func removeDir(ctx context.Context, path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return safepath.Remove(ctx, parent, filepath.Base(path))
}

// replaceContent replaces the content of an open hosts file, unless the file already has the
// content.
func replaceContent(f *os.File, content []byte) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	if info.Size() == int64(len(content)) {
		have := make([]byte, len(content))
		if _, err := f.ReadAt(have, 0); (err == nil || errors.Is(err, io.EOF)) && string(have) == string(content) {
			return nil
		}
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	if err := f.Truncate(int64(len(content))); err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return nil
}

// MaxHosts is the largest part of a hosts file, in bytes, that podrun reads: everything before the
// section that ChangeHosts replaces. Containers may write any amount of data to the file.
const MaxHosts = 64 << 10

// ErrHostsTooLarge means that a hosts file is larger than MaxHosts without its section.
var ErrHostsTooLarge = errors.New("is larger than 64 KiB")

// ChangeHosts replaces the section at the end of a pod's /etc/hosts, which begins with mark, by
// section(base); base is the part before the mark. It ignores a file that is missing or empty
// (ReclaimFiles), and a directory (HostsLost): the next start of a container writes the file. It reads at most MaxHosts bytes of what a container may have written: the section
// is podrun's own text, which ChangeHosts only compares. It does not write to the base, and does not
// truncate the file before it writes, so that a container never reads an empty file. The error is
// ErrHostsTooLarge if the mark does not begin in the first MaxHosts bytes of a larger file.
func ChangeHosts(layout identity.Layout, uid, mark string, section func(base string) string) error {
	path := layout.Pod(uid).EtcHosts()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EISDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("change the pod's hosts file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxHosts+int64(len(mark))))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	base, _, found := strings.Cut(string(data), mark)
	if !found && len(data) > MaxHosts {
		return fmt.Errorf("%s %w", path, ErrHostsTooLarge)
	}
	text, at := section(base), int64(len(base))
	if end := at + int64(len(text)); end == info.Size() {
		have := make([]byte, len(text))
		if _, err := f.ReadAt(have, at); err == nil && string(have) == text {
			return nil
		}
	}
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Truncate(at + int64(len(text))); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

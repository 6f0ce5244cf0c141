package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
)

// maxSocketPath is the maximum length of the path of a unix socket, in bytes: sun_path
// without the final NUL (unix(7)).
const maxSocketPath = 107

// Socket is a unix socket to listen on.
type Socket struct {
	Path string
	// Group, a name or a number, is the group that may use the socket in addition to root; it is ""
	// for none.
	Group string
	// Link is a symlink to Path; it is "" for none. podrun creates and removes the link together
	// with the socket. If Link is set, podrun also removes the directory of Path.
	Link string
}

// ListenUnix listens on a unix socket with mode 0600, or 0660 if it has a group. Members of the
// group can read the environments and logs of pods, and are equivalent to root if Server.Serve uses
// the socket. If a socket of an earlier process exists, ListenUnix replaces it. The caller must
// hold the lock that makes it the only server for the path.
func ListenUnix(s Socket) (net.Listener, error) {
	l, err := s.listen()
	if err == nil && s.Link != "" {
		removeStale(context.Background(), filepath.Dir(filepath.Dir(s.Path)))
		if err = s.makeLink(); err != nil {
			// the caller gets the error of makeLink
			_ = l.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.Path, err)
	}
	return l, nil
}

func (s Socket) listen() (net.Listener, error) {
	if len(s.Path) > maxSocketPath {
		return nil, fmt.Errorf("the socket path is longer than %d bytes", maxSocketPath)
	}
	gid, mode, dirMode := -1, fs.FileMode(0o600), fs.FileMode(0o700)
	if s.Group != "" {
		var err error
		if gid, err = groupID(s.Group); err != nil {
			return nil, err
		}
		mode, dirMode = 0o660, 0o755
	}
	dir := filepath.Dir(s.Path)
	if err := hostfile.MakeDirs(dir, dirMode); err != nil {
		return nil, err
	}
	if s.Link != "" && s.Group != "" {
		// The group must be able to traverse these directories, regardless of the umask, and even
		// if podrun created them for root only. No other program uses them.
		for _, d := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(d, dirMode); err != nil {
				return nil, err
			}
		}
	}
	// podrun creates the socket under a temporary name, so that a socket with another mode never
	// exists at the path.
	temporary := s.temporary()
	if err := replaceable(s.Path, fs.ModeSocket); err != nil {
		return nil, err
	}
	if err := removeOld(temporary, fs.ModeSocket); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if gid >= 0 {
		err = os.Chown(temporary, 0, gid)
	}
	if err == nil {
		err = os.Chmod(temporary, mode)
	}
	if err == nil {
		err = os.Rename(temporary, s.Path)
	}
	if err != nil {
		_ = l.Close()
		// The caller gets the original error.
		_ = os.Remove(temporary)
		return nil, err
	}
	return &socket{UnixListener: l, at: s}, nil
}

// temporary returns the name under which podrun creates the socket. The length limit of Path also
// applies to this name.
func (s Socket) temporary() string {
	switch {
	case len(s.Path) < maxSocketPath:
		return s.Path + "~"
	case s.Path[maxSocketPath-1] == '~':
		return s.Path[:maxSocketPath-1] + "+"
	}
	return s.Path[:maxSocketPath-1] + "~"
}

// makeLink creates the link, which replaces the socket of an earlier release.
func (s Socket) makeLink() error {
	if err := os.MkdirAll(filepath.Dir(s.Link), 0o750); err != nil {
		return err
	}
	if err := replaceable(s.Link, fs.ModeSocket|fs.ModeSymlink); err != nil {
		return err
	}
	temporary := s.Link + "~"
	if err := removeOld(temporary, fs.ModeSocket|fs.ModeSymlink); err != nil {
		return err
	}
	if err := os.Symlink(s.Path, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, s.Link)
}

// replaceable returns an error if path exists and is not of one of the given types.
func replaceable(path string, types fs.FileMode) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.Mode()&types == 0:
		return fmt.Errorf("%s exists and is not a socket: remove it, or choose another path", path)
	}
	return err
}

func removeOld(path string, types fs.FileMode) error {
	if err := replaceable(path, types); err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// socket is a listener that removes its file when it is closed for the first time. Concurrent calls
// of Close wait for the removal, because a late removal could remove the socket of the next server.
type socket struct {
	*net.UnixListener
	at   Socket
	once sync.Once
	err  error
}

// Close implements net.Listener.
func (s *socket) Close() error {
	s.once.Do(func() {
		s.err = s.UnixListener.Close()
		if removed := os.Remove(s.at.Path); s.err == nil && !errors.Is(removed, fs.ErrNotExist) {
			s.err = removed
		}
		if s.at.Link == "" {
			return
		}
		if to, err := os.Readlink(s.at.Link); err == nil && to == s.at.Path {
			if removed := os.Remove(s.at.Link); s.err == nil {
				s.err = removed
			}
		}
		// The removal fails if the directory contains another socket.
		_ = os.Remove(filepath.Dir(s.at.Path))
	})
	return s.err
}

func groupID(group string) (int, error) {
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", group, err)
	}
	return strconv.Atoi(g.Gid)
}

// DialUnix connects to the socket of a server; see ListenUnix.
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	return d.DialContext(ctx, "unix", path)
}

// IsAbsent reports whether an error of DialUnix means that no server listens.
func IsAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

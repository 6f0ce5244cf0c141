package nodeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/hostfile"
)

// maxSocketPath is how long the path of a unix socket may be (unix(7)).
const maxSocketPath = 107

// ListenUnix listens on a unix socket with mode 0600, or 0660 for a group, given by
// name or number. Members of the group can read what pods' environments and logs
// hold, and are equivalent to root. A socket that is left of an earlier process is
// replaced; the caller must hold the lock that makes it the only server of path.
func ListenUnix(path, group string) (net.Listener, error) {
	failed := func(err error) (net.Listener, error) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if len(path) > maxSocketPath {
		return failed(fmt.Errorf("the path of a socket has at most %d bytes", maxSocketPath))
	}
	gid := -1
	if group != "" {
		var err error
		if gid, err = groupID(group); err != nil {
			return failed(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return failed(err)
	}
	// Made under another name: at its path the socket never has another mode.
	temporary := path + "~"
	for _, old := range []string{path, temporary} {
		info, err := os.Lstat(old)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && info.Mode()&fs.ModeSocket == 0:
			err = errors.New("a file that is no socket is at this path: remove it, or choose another path with --api-socket")
		}
		if err == nil && old == temporary {
			err = os.Remove(old)
		}
		if err != nil {
			return failed(err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return failed(err)
	}
	l.SetUnlinkOnClose(false)
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		mode = 0o660
		err = os.Chown(temporary, 0, gid)
	}
	if err == nil {
		err = os.Chmod(temporary, mode)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(temporary) // what made it fail is reported
		return failed(err)
	}
	return &socket{UnixListener: l, path: path}, nil
}

// socket removes its file when it is closed, once: whoever closes it too waits for
// that, so that no late removal takes the socket of the next server.
type socket struct {
	*net.UnixListener
	path string
	once sync.Once
	err  error
}

// Close implements net.Listener.
func (s *socket) Close() error {
	s.once.Do(func() {
		s.err = s.UnixListener.Close()
		if removed := os.Remove(s.path); s.err == nil && !errors.Is(removed, fs.ErrNotExist) {
			s.err = removed
		}
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

// TLSFiles are the PEM files of a TCP listener; all are required.
type TLSFiles struct{ Cert, Key, ClientCA string }

// ListenTLS listens on a TCP address and accepts clients with a certificate that the
// client CA signed for client authentication, with TLS 1.2 or newer. Only Server.Serve
// accepts its connections: the listener's own Accept does not use TLS.
func ListenTLS(ctx context.Context, address string, f TLSFiles) (net.Listener, error) {
	failed := func(err error) (net.Listener, error) {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	first, err := f.config(ctx)
	if err != nil {
		return failed(err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err // names the address
	}
	r := &rotated{files: f, config: first, read: time.Now()}
	return &tlsListener{Listener: l, config: &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return r.current(), nil
	}}}, nil
}

// tlsListener is a TCP listener whose clients use TLS.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// config reads the files.
func (f TLSFiles) config(ctx context.Context) (*tls.Config, error) {
	pems := map[string][]byte{}
	for _, path := range []string{f.Cert, f.Key, f.ClientCA} {
		data, err := hostfile.Read(ctx, path, 1<<20)
		if err != nil {
			return nil, err
		}
		pems[path] = data
	}
	cert, err := tls.X509KeyPair(pems[f.Cert], pems[f.Key])
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pems[f.ClientCA]) {
		return nil, fmt.Errorf("%s has no PEM certificate", f.ClientCA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, NextProtos: []string{"http/1.1"}}, nil
}

// rereadTLS is how often the files of a listener are read again: certificates expire
// while a supervisor runs.
const rereadTLS = time.Minute

// rotated has the last good files of a listener.
type rotated struct {
	files TLSFiles

	mu     sync.Mutex
	config *tls.Config
	read   time.Time
}

// current reads the files again, if it is time. Files that are wrong for a moment, as
// while they are replaced, change nothing.
func (r *rotated) current() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.read) >= rereadTLS {
		r.read = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if c, err := r.files.config(ctx); err == nil {
			r.config = c
		}
	}
	return r.config
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

// quiet drops the server's log messages about disconnected clients and bad requests.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

package hostports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// request is a line that podrun-net or podrun sends.
type request struct {
	Op    string `json:"op"` // add, delete or list
	Owner string `json:"owner"`
	Ports []Port `json:"ports"`
}

// reply is the answer. Port, Protocol and Errno describe the port that failed.
type reply struct {
	Ports    []Port `json:"ports"`
	Error    string `json:"error,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Errno    string `json:"errno,omitempty"`
}

const (
	// A sandbox may have thousands of host ports, with 200 bytes each.
	maxRequest   = 8 << 20
	requestLimit = 10 * time.Second
)

// Listen opens the socket, which only the user can connect to: the directory has mode 700. Root of a
// container that has the run directory as a volume is the user, too.
func Listen(path string) (*net.UnixListener, error) {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temporary, 0o600), os.Rename(temporary, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Serve answers requests until the listener is closed.
func (f *Forwarder) Serve(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(pause)
			continue
		}
		go func() {
			defer c.Close()
			f.answer(c)
		}()
	}
}

func (f *Forwarder) answer(c *net.UnixConn) {
	_ = c.SetDeadline(time.Now().Add(requestLimit))
	var r reply
	if err := checkPeer(c); err != nil {
		r.Error = err.Error()
	} else {
		var q request
		if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&q); err != nil {
			r.Error = "request: " + err.Error()
		} else {
			r = f.handle(q)
		}
	}
	if r.Ports == nil {
		r.Ports = []Port{}
	}
	_ = c.SetDeadline(time.Now().Add(requestLimit))
	_ = json.NewEncoder(c).Encode(r)
	// The kernel would reset the connection if it closed it with unread data.
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(c, maxRequest))
}

// checkPeer permits only processes of the user: in U, all of them have the user ID 0.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failure error
	if err := raw.Control(func(fd uintptr) {
		peer, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d must not change host ports", peer.Uid)
	}
	return nil
}

func (f *Forwarder) handle(q request) reply {
	var err error
	switch {
	case q.Op == "list":
		return reply{Ports: f.List()}
	case q.Owner == "":
		err = errors.New("request: no owner")
	case q.Op == "add":
		err = f.Add(q.Owner, q.Ports)
	case q.Op == "delete":
		err = f.Delete(q.Owner)
	default:
		err = fmt.Errorf("request: unknown op %q", q.Op)
	}
	if err == nil {
		return reply{Ports: q.Ports}
	}
	r := reply{Error: err.Error(), Errno: ErrnoName(err)}
	var of *PortError
	if errors.As(err, &of) {
		r.Port, r.Protocol = of.Port.HostPort, of.Port.Protocol
	}
	return r
}

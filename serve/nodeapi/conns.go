package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Limits for the connections of a listener.
const (
	// maxNew limits the connections that have not sent a request yet: on a TCP listener, the
	// clients may not even have presented a certificate.
	maxNew = 64
	// maxConns limits all other connections. It exceeds the sum of maxAnswers and maxStreams.
	maxConns = 128
)

// phase is the state of a connection.
type phase int

const (
	// the client has not sent a complete request yet; this includes handshakes
	fresh phase = iota
	idle        // the connection is between requests
	// the server is answering a request
	busy
	closed
)

// conns is a listener that limits its connections. It always accepts a new connection. If the
// number of connections then exceeds a limit, it closes one that is not busy: the oldest one of the
// client with the most connections, so that no client can lock out others.
type conns struct {
	net.Listener

	mu   sync.Mutex
	list []*conn // ordered by the time in the current phase, longest first
}

// conn is a connection of conns.
type conn struct {
	net.Conn
	of     *conns
	client string // a user of this host, or an address
	// outside is the reason why the client may not access containers. It is nil if the client may
	// access them.
	outside error
	phase   phase // guarded by of.mu
}

// errNoSocket explains why clients of a TCP listener may not access containers.
var errNoSocket = errors.New("these are available on the unix socket only")

// Accept implements net.Listener.
func (l *conns) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, of: l, client: clientOf(accepted), outside: errNoSocket}
	if socket, ok := accepted.(*net.UnixConn); ok {
		// This must happen immediately, because the client's process may exit.
		c.outside = outsideContainers(socket)
	}
	l.mu.Lock()
	var victim *conn
	if l.count(fresh) >= maxNew {
		victim = l.oldest(fresh)
	}
	l.move(c, fresh)
	l.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
	return c, nil
}

// begin marks a connection as busy until end is called. It returns false if the connection
// is being closed.
func (c *conn) begin() bool {
	l := c.of
	l.mu.Lock()
	if c.phase == closed {
		l.mu.Unlock()
		return false
	}
	var victim *conn
	if c.phase == fresh && l.count(idle)+l.count(busy) >= maxConns {
		if victim = l.oldest(idle); victim == nil {
			victim = c
		}
	}
	if victim != c {
		l.move(c, busy)
	}
	l.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
	return victim != c
}

func (c *conn) end() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.phase == busy {
		c.of.move(c, idle)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.move(c, closed)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// move changes the phase of a connection. The caller of move and of the methods below must hold mu.
func (l *conns) move(c *conn, to phase) {
	l.list = slices.DeleteFunc(l.list, func(o *conn) bool { return o == c })
	if c.phase = to; to != closed {
		l.list = append(l.list, c)
	}
}

func (l *conns) count(in phase) (n int) {
	for _, c := range l.list {
		if c.phase == in {
			n++
		}
	}
	return n
}

// oldest selects a connection to close: the oldest connection in the given phase, of the client
// that has the most connections in this phase. It removes the connection from the list and returns
// it. It returns nil if no connection is in the phase.
func (l *conns) oldest(in phase) *conn {
	of := map[string]int{}
	most := 0
	for _, c := range l.list {
		if c.phase == in {
			of[c.client]++
			most = max(most, of[c.client])
		}
	}
	for _, c := range l.list {
		if c.phase == in && of[c.client] == most {
			l.move(c, closed)
			return c
		}
	}
	return nil
}

// clientOf identifies a client. For a unix socket, this is the user; for TCP, it is the
// address, or the /64 network of an IPv6 address.
func clientOf(c net.Conn) string {
	switch c := c.(type) {
	case *net.UnixConn:
		if cred, err := credentials(c); err == nil {
			return "user " + strconv.FormatUint(uint64(cred.Uid), 10)
		}
	default:
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			if ip := a.IP.To4(); ip != nil {
				return ip.String()
			}
			return a.IP.Mask(net.CIDRMask(64, 128)).String()
		}
	}
	return ""
}

// credentials returns the credentials of the process at the other end of a unix socket, at the time
// when it connected.
func credentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	if controlled := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlled != nil {
		return nil, controlled
	}
	return cred, err
}

// connKey is the key under which the context of a request contains its connection.
type connKey struct{}

// withConn adds a connection that conns has accepted to the context of the connection's requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request.
func connOf(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }

// tracked marks the connections of active requests as busy, so that conns does not close
// them.
func tracked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		if !c.begin() {
			// conns is already closing the connection
			panic(http.ErrAbortHandler)
		}
		defer c.end()
		h.ServeHTTP(w, r)
	})
}

package nodeapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of a server.
const (
	maxConns      = 128
	maxAnswers    = 8  // that are made at a time
	maxStreams    = 64 // logs that are followed, and watches
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	idleTimeout   = 90 * time.Second
	answerTimeout = 60 * time.Second // to make an answer
	writeTimeout  = 30 * time.Second // for a client to read a write
)

// Server serves the API of a backend.
type Server struct {
	backend Backend
	answers chan struct{}
	streams chan struct{}
	http    *http.Server
	ended   chan struct{} // closed when streams must end
	once    sync.Once
	// writeTimeout is the constant, but in tests.
	writeTimeout time.Duration
}

// NewServer returns a server that listens nowhere yet.
func NewServer(b Backend) *Server {
	b.Pods, b.Stats = share(sharedAge, b.Pods), share(sharedAge, b.Stats)
	s := &Server{backend: b, answers: make(chan struct{}, maxAnswers), streams: make(chan struct{}, maxStreams), ended: make(chan struct{}), writeTimeout: writeTimeout}
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: quiet()}
	return s
}

// Serve serves a listener, which it closes, until Close. Of connections over the
// limit it closes the newest at once.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(&limited{Listener: l, free: make(chan struct{}, maxConns)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends all streams and requests.
func (s *Server) Close() {
	s.once.Do(func() { close(s.ended) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // requests that did not end in time are aborted
	}
}

// limited is a listener with a limit of connections.
type limited struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &counted{Conn: c, release: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = c.Close()
		}
	}
}

type counted struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}

// bounded limits a request before its handler: methods, concurrency and time.
func (s *Server) bounded(slots chan struct{}, stream bool, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "use GET")
			return
		}
		if r.ContentLength != 0 {
			// The server reads what comes of the body, to use the connection again.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout))
			w.Header().Set("Connection", "close")
			fail(w, http.StatusRequestEntityTooLarge, "requests have no body")
			return
		}
		s.slotted(slots, stream, w, r, h)
	}
}

// slotted limits how many requests are answered at a time, and for how long. A stream
// has no time limit, and ends with the server.
func (s *Server) slotted(slots chan struct{}, stream bool, w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, "too many requests at a time: repeat the request later")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	if !stream {
		ctx, cancel = context.WithTimeout(r.Context(), answerTimeout)
	}
	defer cancel()
	go func() {
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	h(w, r.WithContext(ctx))
}

package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Limits of a server.
const (
	maxAnswers    = 8  // maximum number of concurrent responses
	maxStreams    = 64 // maximum number of followed logs and event watches
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	idleTimeout   = 90 * time.Second
	answerTimeout = 60 * time.Second // the time within which the server must produce a response
	writeTimeout  = 30 * time.Second // the time within which a client must read one write
)

// Server serves the API of a backend.
type Server struct {
	backend Backend
	ended   chan struct{} // closed when streams must end
	once    sync.Once
	// writeTimeout is the constant of that name; tests set a shorter time.
	writeTimeout time.Duration

	mu      sync.Mutex
	servers []*http.Server
}

// NewServer returns a server that does not listen yet.
func NewServer(b Backend) *Server {
	b.Pods, b.Stats = share(sharedAge, b.Pods), share(sharedAge, b.Stats)
	return &Server{backend: b, ended: make(chan struct{}), writeTimeout: writeTimeout}
}

// endpoint is the state that the clients of one listener share. Each listener has separate
// limits, so that its clients cannot exhaust the limits of another listener.
type endpoint struct {
	*Server
	answers chan struct{}
	streams chan struct{}
}

// Serve serves the whole API on a listener from ListenUnix or ListenTLS until Close is called, and
// closes the listener.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, (*endpoint).handler) }

// ServeStatus is like Serve, but serves only metrics and status.
func (s *Server) ServeStatus(l net.Listener) error { return s.serve(l, (*endpoint).statusHandler) }

func (s *Server) serve(l net.Listener, handler func(*endpoint) http.Handler) error {
	e := &endpoint{Server: s, answers: make(chan struct{}, maxAnswers), streams: make(chan struct{}, maxStreams)}
	routes := handler(e)
	permitted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.authorized(w, r) {
			routes.ServeHTTP(w, r)
		}
	})
	server := &http.Server{Handler: tracked(permitted), ConnContext: withConn, ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: quiet()}
	if !s.add(server) {
		return l.Close()
	}
	defer s.remove(server)
	if secure, ok := l.(*tlsListener); ok {
		// TLS wraps the limiting listener, so that the latter can close a connection without
		// waiting for TLS.
		l = tls.NewListener(&conns{Listener: secure.Listener}, secure.config)
	} else {
		l = &conns{Listener: l}
	}
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// add registers a server that Close must shut down. It returns false after Close.
func (s *Server) add(server *http.Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return false
	default:
		s.servers = append(s.servers, server)
		return true
	}
}

func (s *Server) remove(server *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = slices.DeleteFunc(s.servers, func(o *http.Server) bool { return o == server })
}

// Close ends all streams and requests.
func (s *Server) Close() {
	s.mu.Lock()
	servers := slices.Clone(s.servers)
	s.once.Do(func() { close(s.ended) })
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(ctx) != nil {
			// This aborts the requests that have not ended in time.
			_ = server.Close()
		}
	}
}

// bounded returns a handler that enforces the limits on the method, concurrency and duration of
// requests.
func (s *endpoint) bounded(slots chan struct{}, stream bool, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "use GET")
			return
		}
		if r.ContentLength != 0 {
			// The server reads the rest of the request's body in order to reuse the connection. This
			// deadline limits the time for reading it.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout))
			w.Header().Set("Connection", "close")
			fail(w, http.StatusRequestEntityTooLarge, "requests must not have a body")
			return
		}
		s.slotted(slots, stream, w, r, h)
	}
}

// slotted limits how many requests the server processes concurrently, and for how long. A
// stream has no time limit; it ends with the server.
func (s *endpoint) slotted(slots chan struct{}, stream bool, w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, "too many concurrent requests: retry later")
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

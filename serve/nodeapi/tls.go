package nodeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
)

// TLSFiles are the PEM files of a TCP listener; all are required.
type TLSFiles struct{ Cert, Key, ClientCA string }

// ListenTLS listens on a TCP address and accepts clients with TLS 1.2 or newer. A client must have
// a certificate that the client CA signed for client authentication. Only Server.Serve may accept
// connections, because the listener's own Accept does not use TLS.
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
		// The error already contains the address.
		return nil, err
	}
	r := &rotated{files: f, config: first, read: time.Now()}
	return &tlsListener{
		Listener: l,
		config: &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.current(), nil
		}},
	}, nil
}

// tlsListener is a TCP listener whose clients use TLS.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// config reads the files, and returns the configuration of the listener.
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

// rereadTLS is the interval at which podrun reads the files of a listener again, because
// certificates may expire while a supervisor runs.
const rereadTLS = time.Minute

// rotated contains the configuration that was read from the last valid files of a listener.
type rotated struct {
	files TLSFiles

	mu     sync.Mutex
	config *tls.Config
	read   time.Time
}

// current returns the configuration. It reads the files again when rereadTLS has passed. While the
// files are invalid, for example because an administrator is replacing them, the last valid
// configuration remains in effect.
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

// quiet discards the server's log messages about disconnected clients and bad requests.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

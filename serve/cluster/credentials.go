package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// credentials sends requests with the credentials that a kubeconfig has at that time: another program may
// renew them in the kubeconfig itself. client-go does the same for files that a kubeconfig names, but it
// reads the kubeconfig only once, and uses a new certificate only up to 5 minutes later. Therefore, credentials
// itself reads the file of a kubelet, which contains both the certificate and the key. It is safe for
// concurrent use.
type credentials struct {
	kubeconfig string
	warn       func(problem.List)

	mu      sync.Mutex
	pair    string   // the file with the client certificate and its key; "" if they are elsewhere
	read    versions // of the files that were read last
	current http.RoundTripper
}

// versions are the states of the kubeconfig and of the file with the client certificate and its key; nil if a
// file does not exist.
type versions struct{ kubeconfig, pair os.FileInfo }

// newCredentials returns the configuration of a kubeconfig, and a configuration for clients whose
// credentials are always those of the file.
func newCredentials(kubeconfig string, warn func(problem.List)) (config, client *rest.Config, err error) {
	c := &credentials{kubeconfig: kubeconfig, warn: warn}
	// Before the file is read: a change in between is a change.
	if c.read.kubeconfig, err = os.Stat(kubeconfig); err != nil {
		return nil, nil, err
	}
	if config, c.current, err = c.load(); err != nil {
		return nil, nil, err
	}
	return config, &rest.Config{
		Host:           config.Host,
		APIPath:        config.APIPath,
		Transport:      c,
		QPS:            requestsPerSecond,
		Burst:          requestBurst,
		WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	}, nil
}

// load reads the kubeconfig and the file with the client certificate and its key.
func (c *credentials) load() (*rest.Config, http.RoundTripper, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	c.pair = ""
	c.read.pair = nil
	if tls := &config.TLSClientConfig; tls.CertFile != "" && tls.CertFile == tls.KeyFile && len(tls.CertData)+len(tls.KeyData) == 0 {
		c.pair = tls.CertFile
		if c.read.pair, err = stat(c.pair); err != nil {
			return nil, nil, err
		}
		data, err := os.ReadFile(c.pair)
		if err != nil {
			return nil, nil, err
		}
		tls.CertFile = ""
		tls.KeyFile = ""
		tls.CertData = data
		tls.KeyData = data
	}
	transport, err := rest.TransportFor(config)
	return config, transport, err
}

// RoundTrip implements http.RoundTripper.
func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.transport().RoundTrip(r)
}

// stat returns the state of the file to which a path refers; nil if it does not exist.
func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// changed reports whether a file is another than the one that was read, or has other content.
func changed(now, read os.FileInfo) bool {
	if now == nil || read == nil {
		return now != read
	}
	return !os.SameFile(now, read) || !now.ModTime().Equal(read.ModTime()) || now.Size() != read.Size()
}

// versions returns the current states of the files.
func (c *credentials) versions() (now versions, err error) {
	if now.kubeconfig, err = os.Stat(c.kubeconfig); err == nil && c.pair != "" {
		now.pair, err = stat(c.pair)
	}
	return now, err
}

// transport returns the transport with the current credentials. If a file cannot be read, for example because
// another program is writing it, it returns the previous one.
func (c *credentials) transport() http.RoundTripper {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.versions()
	if err != nil || !changed(now.kubeconfig, c.read.kubeconfig) && !changed(now.pair, c.read.pair) {
		return c.current
	}
	c.read = now
	_, next, err := c.load()
	if err != nil {
		c.warn(problem.List{{
			Object:  "--kubeconfig " + c.kubeconfig,
			Warning: true,
			Message: event.Cut(fmt.Sprintf("podrun keeps the previous credentials: %v", err)),
			Hint:    "correct the file; podrun reads it again when it changes",
		}})
		return c.current
	}
	// Requests in progress, such as watches, end on their connections.
	utilnet.CloseIdleConnectionsFor(c.current)
	c.current = next
	return next
}

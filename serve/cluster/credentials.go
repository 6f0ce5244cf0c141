package cluster

import (
	"fmt"
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
// reads the kubeconfig only once. It is safe for concurrent use.
type credentials struct {
	kubeconfig string
	warn       func(problem.List)

	mu      sync.Mutex
	read    os.FileInfo // of the kubeconfig that was read last
	current http.RoundTripper
}

// newCredentials returns the configuration of a kubeconfig, and a configuration for clients whose
// credentials are always those of the file.
func newCredentials(kubeconfig string, warn func(problem.List)) (config, client *rest.Config, err error) {
	c := &credentials{kubeconfig: kubeconfig, warn: warn}
	// Before the file is read: a change in between is a change.
	if c.read, err = os.Stat(kubeconfig); err != nil {
		return nil, nil, err
	}
	if config, c.current, err = c.load(); err != nil {
		return nil, nil, err
	}
	return config, &rest.Config{Host: config.Host, APIPath: config.APIPath, Transport: c, QPS: requestsPerSecond, Burst: requestBurst, WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}}, nil
}

// load reads the kubeconfig.
func (c *credentials) load() (*rest.Config, http.RoundTripper, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	transport, err := rest.TransportFor(config)
	return config, transport, err
}

// RoundTrip implements http.RoundTripper.
func (c *credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.transport().RoundTrip(r)
}

// transport returns the transport with the current credentials. If the kubeconfig cannot be read, for
// example because another program is writing it, it returns the previous one.
func (c *credentials) transport() http.RoundTripper {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := os.Stat(c.kubeconfig)
	if err != nil || os.SameFile(now, c.read) && now.ModTime().Equal(c.read.ModTime()) && now.Size() == c.read.Size() {
		return c.current
	}
	c.read = now
	_, next, err := c.load()
	if err != nil {
		c.warn(problem.List{{Object: "--kubeconfig " + c.kubeconfig, Warning: true, Message: event.Cut(fmt.Sprintf("podrun keeps the previous credentials: %v", err)),
			Hint: "correct the file; podrun reads it again when it changes"}})
		return c.current
	}
	// Requests in progress, such as watches, end on their connections.
	utilnet.CloseIdleConnectionsFor(c.current)
	c.current = next
	return next
}

// Package nodeapi implements the HTTP API of podrun serve, in the kubelet's format: health, pods,
// metrics, statistics, events and logs. The unix socket also provides exec, attach and port
// forwarding.
//
// A Server answers requests with the results of a Backend and never changes a pod's definition. It
// renders a response completely before it writes the response, so that a slow client does not hold
// a lock or delay other requests. If a client does not read a stream, the Server disconnects the
// client. Workers report the operations that Metrics counts, independently of scrapes.
//
// Three files control access. socket.go sets the owner and mode of the unix socket.
// outside_containers.go detects a client that runs in a container, and proxy.go refuses exec,
// attach and port-forward to such a client.
package nodeapi

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/internal/event"
)

// Backend provides a Server's data. All of its functions must be set. The Server calls them
// concurrently, with the context of the request.
type Backend struct {
	// Health returns the checks of /readyz. It must not block.
	Health func() []Check
	// Pods returns all pods with their status.
	Pods func(context.Context) (*corev1.PodList, error)
	// Sources returns the state of the manifest sources, and those that are no longer read. It must not block.
	Sources func() []Source
	// Stats returns the statistics of the node and its pods.
	Stats func(context.Context) (*statsapi.Summary, error)
	// Events returns the events in the pods' journals, oldest first.
	Events func(ctx context.Context, namespace, pod string) ([]event.Event, error)
	// Logs writes the log of a container. It returns at the current end of the log or, if the
	// request follows the log, when ctx ends. If Logs has written nothing, the error is of a type
	// from package problem.
	Logs func(context.Context, LogRequest, io.Writer) error
	// Exec, Attach and PortForward return a URL of the runtime's streaming server that is
	// valid for one connection.
	Exec, Attach, PortForward func(context.Context, StreamRequest) (string, error)
	// ReadOnly disables exec, attach and port-forward.
	ReadOnly bool
	// Authorize decides about requests of clients with a certificate. If it is nil, these clients may
	// read everything, but not access containers.
	Authorize func(context.Context, Access) error
	// LocalName returns the name on this host of a pod, given the name that a client with a certificate
	// uses. LocalName is nil if the names are the same.
	LocalName func(namespace, pod string) string
	// Feed delivers new events.
	Feed *Feed
	// Metrics are the metrics of /metrics.
	Metrics *Metrics
}

// Check is one condition of /readyz.
type Check struct {
	Name string // sources, runtime or workers
	// Reason explains why the check fails. It contains no credentials. It is empty if the check
	// passes.
	Reason string
	// Note is shown with a passing check if the client requests all checks. It may be empty.
	Note string
	// Live is true if /healthz includes the check, because a restart may fix the problem.
	Live bool
}

// Source is the state of one manifest source, as `podrun get --sources` prints it.
type Source struct {
	Name  string `json:"name"`  // the directory, or the URL without its query
	State string `json:"state"` // Present, Unreachable, Unverified or RemovedSource
	Why   string `json:"why,omitempty"`
	Files int    `json:"files"` // number of files that are in effect
	Pods  int    `json:"pods"`  // number of pods in these files
	// Problems are the problems of files whose latest content is not in effect.
	Problems []string `json:"problems,omitempty"`
	// Pending are the pods of these files whose definitions are not in effect.
	Pending []string `json:"pending,omitempty"`
	// Ignored are the objects of these files that podrun ignores, because another file has objects of the same names.
	Ignored []string `json:"ignored,omitempty"`
	// Kept are the objects of a RemovedSource that are still on this host.
	Kept []KeptObject `json:"kept,omitempty"`
}

// RemovedSource is the state of a directory or URL that podrun no longer reads although objects that came from
// it are still on this host.
const RemovedSource = "Removed"

// KeptObject is an object of a RemovedSource.
type KeptObject struct {
	Namespace string `json:"namespace"`
	Object    string `json:"object"` // deployment/web
}

// Reason returns the first problem of the source, or the first object that podrun ignores, and the number of the
// others; it is "" if there are none.
func (s Source) Reason() string { return s.unready(s.Ignored) }

// unready returns the first problem because of which the source's content is not in effect, and the number of the
// others. The argument also has further problems.
func (s Source) unready(also []string) string {
	problems := slices.Concat(s.Problems, s.Pending, also)
	if s.Why != "" {
		problems = slices.Insert(problems, 0, s.Why)
	}
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return problems[0]
	}
	return fmt.Sprintf("%s (and %d more)", problems[0], len(problems)-1)
}

// LogRequest is a request for the log of one container, with the parameters of the
// API server's pods/log.
type LogRequest struct {
	Namespace, Pod, Container string
	Previous, Follow          bool
	Timestamps                bool
	Tail, LimitBytes          *int64 // nil means no limit
	Since                     time.Time
}

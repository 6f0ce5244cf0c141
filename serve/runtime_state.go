package serve

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/nodeapi"
)

// RuntimeState describes the runtime that a supervisor's process starts and restarts.
type RuntimeState struct {
	Problem string // why it cannot be used at the moment; "" if it can
	Note    string // what an administrator should know even if the runtime can be used; may be empty
}

// Waiting is the HTTP API of a supervisor that cannot begin, because this host has no container runtime.
type Waiting struct {
	api  *api
	lock *store.ServeLock
	end  context.CancelFunc

	reason atomic.Pointer[string]
}

// AwaitRuntime provides the HTTP API until Close: /readyz fails with the reason of the last Report. It
// returns nil if another supervisor uses the root directory, or if the lock cannot be taken: Run reports
// both.
func AwaitRuntime(ctx context.Context, s nodeconfig.Settings, o APIOptions, warn func(problem.List)) *Waiting {
	e := &node.Node{Settings: s, Warn: warn}
	lock, err := store.TryServeLock(e.Layout(), e.Holder())
	if err != nil || lock == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &api{engine: e, options: o, feed: &nodeapi.Feed{}, deaf: map[string]string{}}
	a.metrics = nodeapi.NewMetrics(e.NodeName(), a.state)
	w := &Waiting{api: a, lock: lock, end: cancel}
	w.Report("no runtime has been found yet")
	waits := func() error { return errors.New("podrun serve waits for a container runtime: " + *w.reason.Load()) }
	stream := func(context.Context, nodeapi.StreamRequest) (string, error) { return "", waits() }
	a.server = nodeapi.NewServer(nodeapi.Backend{
		Health: func() []nodeapi.Check { return []nodeapi.Check{{Name: "runtime", Reason: *w.reason.Load()}} },
		Pods:   func(context.Context) (*corev1.PodList, error) { return nil, waits() },
		Stats:  func(context.Context) (*statsapi.Summary, error) { return nil, waits() },
		Logs:   func(context.Context, nodeapi.LogRequest, io.Writer) error { return waits() },
		Events: func(ctx context.Context, namespace, pod string) ([]event.Event, error) {
			return a.events(ctx, namespace, pod)
		},
		Exec: stream, Attach: stream, PortForward: stream,
		Sources: a.sources, Feed: a.feed, Metrics: a.metrics, ReadOnly: s.ReadOnlyAPI})
	a.listen(ctx)
	return w
}

// Report sets the reason why there is no runtime. w may be nil.
func (w *Waiting) Report(reason string) {
	if w != nil {
		w.reason.Store(&reason)
	}
}

// Close ends the API, so that Run can provide it. w may be nil.
func (w *Waiting) Close() {
	if w == nil {
		return
	}
	w.end()
	w.api.close()
	w.lock.Unlock()
}

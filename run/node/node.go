package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// Node is the state that all pods of a process share. Its fields are set once; it is safe for
// concurrent use.
type Node struct {
	// ServicesSynced is set when an operation has brought the names and rules of Services up to date.
	ServicesSynced atomic.Bool

	Client   *cri.Client
	Settings nodeconfig.Settings
	Emit     event.Sink         // receives the events of all pods
	Progress event.Sink         // receives the progress of pulls; may be nil
	Warn     func(problem.List) // receives warnings; may be nil
	Command  string             // the program, the command and the names of its objects; lock files show it to other processes
	// Invocation is the random ID of this process. The objects that it creates carry the ID.
	Invocation string
	// Unattended is true if no user waits for this process. The process then does not report which
	// command holds a lock.
	Unattended bool
	// PullLimit is the timeout for pulling an image if the settings do not specify one; 0 means no
	// timeout.
	PullLimit time.Duration
	// If Attended is true, it is a permanent error if the name of a registry does not resolve
	// (imagepull.Options).
	Attended bool
	// Puller pulls the images of all pods; if nil, each command uses a separate puller.
	Puller *Puller
	// Observer receives metrics of the pods; the zero value ignores them.
	Observer Observer
	// Facts returns this host's facts for pods that were already admitted. If it is nil, podrun
	// reads the facts each time.
	Facts func(context.Context) (host.Facts, error)
	// RepairImages loads images again that are damaged and of which podrun has an archive. It reports whether it
	// has loaded any since the given time, at which a failed call began. If it is nil, podrun cannot do this.
	RepairImages func(ctx context.Context, since time.Time) bool
	// ClusterServices returns the Services of a namespace, from which podrun derives environment
	// variables of new containers. If it is nil, podrun uses the Services that it has recorded.
	ClusterServices func(namespace string) []*corev1.Service

	// determines the order of the goroutines that wait for the node's lock
	turn       turn
	background sync.WaitGroup // calls whose results podrun needs only for warnings
	ahead      atomic.Pointer[discover.Ahead]
	warned     recent // warnings that WarnOnce has sent
}

// Observer receives metrics of a node's pods. Its functions are called concurrently and must not
// block. A nil function is not called.
type Observer struct {
	// Probed receives the result of a probe: its kind (startup, readiness or liveness), and success,
	// failure, warning or unknown.
	Probed func(id identity.Pod, container, kind, result string)
	// Changed is called when the sandbox, a container or the readiness of a supervised pod has changed,
	// and the change is on disk or in the runtime.
	Changed func(id identity.Pod)
	// Stopping is called when an operation has recorded that it is stopping containers of a pod.
	Stopping func(id identity.Pod)
	// Status receives a supervised pod with its status after each step of its worker.
	Status func(*corev1.Pod)
	// Unserved receives the Services without an endpoint, after each synchronization of the Services.
	Unserved func([]*corev1.Service)
	// Pulled receives the size in bytes and the duration of a successful image pull.
	Pulled func(size uint64, took time.Duration)
}

// UseAhead makes the next Read use facts that are already being read. If facts is nil, Read reads the facts
// itself.
func (n *Node) UseAhead(facts *discover.Ahead) { n.ahead.Store(facts) }

// Settle waits for background checks whose results podrun needs only for warnings.
func (n *Node) Settle() { n.background.Wait() }

// Layout returns the paths of this node's files, according to its settings.
func (n *Node) Layout() identity.Layout { return n.Settings.Layout() }

// SendWarnings passes warnings to Warn, unless Warn is nil or there are none.
func (n *Node) SendWarnings(l problem.List) {
	if n.Warn != nil && len(l) > 0 {
		n.Warn(l)
	}
}

// InParallel calls do for each item concurrently and returns the results in the
// order of the list.
func InParallel[T, R any](list []T, do func(T) R) []R {
	results := make([]R, len(list))
	var wg sync.WaitGroup
	for i, item := range list {
		wg.Go(func() { results[i] = do(item) })
	}
	wg.Wait()
	return results
}

// Locks returns the pod locks of this process.
func (n *Node) Locks() store.Locks {
	warn := n.SendWarnings
	if n.Unattended {
		warn = func(problem.List) {}
	}
	return store.NewLocks(n.Layout(), n.Holder(), warn)
}

// LockPods locks the pods of the objects. The caller must release the locks even after an error. The
// error is of kind Deadline, or the cause that ended ctx.
func (n *Node) LockPods(ctx context.Context, objects *manifest.Objects) (store.PodLocks, error) {
	ids := make([]identity.Pod, 0, len(objects.Pods))
	for _, p := range objects.Pods {
		ids = append(ids, identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	return n.Locks().LockPods(ctx, ids)
}

// Holder returns the name of this process for lock files; the invocation makes it unique.
func (n *Node) Holder() string {
	return store.NewHolder(n.Command, n.Invocation)
}

// Observe reads a pod by its UID (observe.ReadPod), and warns once about each state file that cannot be
// read. The observation is never nil. The error is the runtime's and does not name the pod.
func (n *Node) Observe(ctx context.Context, uid string) (*lifecycle.Observed, error) {
	obs, err := observe.ReadPod(ctx, n.Client, n.Layout(), uid)
	for _, p := range obs.Unreadable {
		n.WarnOnce(p)
	}
	return obs, err
}

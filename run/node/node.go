package node

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

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

// Node is what all pods of a process share. Its fields are set once; it is safe
// for concurrent use.
type Node struct {
	Client   *cri.Client
	Settings nodeconfig.Settings
	Emit     event.Sink         // gets every pod's events
	Progress event.Sink         // gets the progress of pulls; may be nil
	Warn     func(problem.List) // gets warnings, which refuse nothing; may be nil
	Command  string             // this command line, which locks show to others
	// Invocation is the random ID of this process, which marks the objects that it
	// creates.
	Invocation string
	// Patient means that no user waits for this process: it does not report which command
	// holds a lock.
	Patient bool
	// PullLimit limits the pull of an image if the settings do not; 0: no limit.
	PullLimit time.Duration
	// Puller pulls the images of all pods; nil for a puller a command.
	Puller *Puller
	// Observer receives metrics of the pods; its zero value counts nothing.
	Observer Observer
	// Facts reads this host's facts for pods that were admitted before; nil reads
	// them each time.
	Facts func(context.Context) (host.Facts, error)

	turn   turn           // to wait for the node's lock
	asking sync.WaitGroup // for what is only warned of
	ahead  atomic.Pointer[discover.Ahead]
	warned recent // warnings that WarnOnce has sent
}

// Observer receives metrics of a node's pods. Its functions are called concurrently and
// must not block; nil ones are not called.
type Observer struct {
	// Probed gets the result of a probe: its kind (startup, readiness or liveness) and
	// success, failure, warning or unknown.
	Probed func(id identity.Pod, container, kind, result string)
	// Pulled gets a successful pull of an image: its size in bytes and how long it took.
	Pulled func(size uint64, took time.Duration)
}

// UseAhead gives the next Prepare facts that are being read; nil for none.
func (n *Node) UseAhead(facts *discover.Ahead) { n.ahead.Store(facts) }

// Settle waits for what was asked of the runtime only to warn of it.
func (n *Node) Settle() { n.asking.Wait() }

// Layout is where the files of this node are, by its settings.
func (n *Node) Layout() identity.Layout { return n.Settings.Layout() }

// SendWarnings gives warnings to Warn; nothing where it is nil or there are none.
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

// Locks makes the locks of this process.
func (n *Node) Locks() store.Locks {
	warn := n.SendWarnings
	if n.Patient {
		warn = func(problem.List) {}
	}
	return store.NewLocks(n.Layout(), n.Holder(), warn)
}

// LockPods locks the pods of the objects. The caller must release the locks even if there
// is an error, which is of kind Deadline or the cause that ended ctx.
func (n *Node) LockPods(ctx context.Context, objects *manifest.Objects) (store.PodLocks, error) {
	ids := make([]identity.Pod, 0, len(objects.Pods))
	for _, p := range objects.Pods {
		ids = append(ids, identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	return n.Locks().LockPods(ctx, ids)
}

// Holder names this process in a lock file; the invocation makes it unique.
func (n *Node) Holder() string {
	return fmt.Sprintf("process %d (%s) [%s]", os.Getpid(), n.Command, n.Invocation)
}

// Observe reads a pod by its UID (observe.ReadPod), and warns once of each state
// file that cannot be read. The observation is never nil; the error is the
// runtime's, without the pod's name.
func (n *Node) Observe(ctx context.Context, uid string) (*lifecycle.Observed, error) {
	obs, err := observe.ReadPod(ctx, n.Client, n.Layout(), uid)
	for _, p := range obs.Unreadable {
		n.WarnOnce(p)
	}
	return obs, err
}

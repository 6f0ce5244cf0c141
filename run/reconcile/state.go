package reconcile

import (
	"context"
	"time"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	corev1 "k8s.io/api/core/v1"
)

// state is what a process knows of one pod on this host, and keeps of it on disk. Only the
// holder of the pod's lease changes it. It is not safe for concurrent use, except for emit.
type Pod struct {
	Node    *node.Node
	Plan    *prepare.Plan
	Observed     *lifecycle.Observed // what the runtime and the state files had
	Journal *store.Journal
	Prober  *probe.Prober // nil while no probes run
	// watchesGroup is true if the pod is to be created again without its cgroup, once it was
	// seen (groupSeen).
	WatchesGroup, groupSeen bool
	// resizePending is what is known of a resize that the pod waits for.
	ResizePending PendingResize
	// removedAtEnd is true if the command removes the pod when it ends, so hints must not
	// refer to the pod.
	RemovedAtEnd bool
	// unrecorded are the pending restarts that could not be written; nil if they are on disk.
	unrecorded map[string]lifecycle.PendingRestart
}

// pendingResize is why the pod cannot be resized to its source's definition: nil if it can. If
// it is not known, the stored reason applies.
type PendingResize struct {
	Known  bool
	Reason *lifecycle.ResizePending
}

func New(n *node.Node, p *prepare.Plan) *Pod {
	return &Pod{Node: n, Plan: p, Observed: &lifecycle.Observed{}, Journal: &store.Journal{Pod: p.ID, Next: n.Emit}}
}

func (w *Pod) Spec() *corev1.Pod { return w.Plan.Pod }

// emit reports an event about a container of the pod, or about the pod itself.
func (w *Pod) Emit(kind, reason, container, message string) {
	path := ""
	if container != "" {
		path = lifecycle.FindContainer(w.Spec(), container).EventPath
	}
	w.Journal.Emit(event.Event{Type: kind, Reason: reason, FieldPath: path, Message: message})
}

func (w *Pod) World() lifecycle.World {
	world := lifecycle.World{Observed: w.Observed, Hashes: w.Plan.Hashes(), Now: time.Now(), Since: lifecycle.TakenOn(w.Spec(), w.Observed), BackOff: w.RestartBackOff()}
	world.Started, _, world.Unhealthy = w.Probed()
	if w.WatchesGroup {
		exists := cgroup.ReadExists(w.Plan.Cgroup)
		world.GroupLost = w.groupSeen && !exists
		w.groupSeen = w.groupSeen || exists
	}
	return world
}

func (w *Pod) RestartBackOff() lifecycle.RestartBackOff {
	first, longest := w.Node.Settings.CrashLoopBackOff()
	return lifecycle.RestartBackOff{First: first, Longest: longest}
}

// observe reads the pod from the runtime and its state files. If that fails, what was known
// remains: nothing that podrun records may follow from a failed observation.
func (w *Pod) Observe(ctx context.Context) error {
	seen, err := w.Node.Observe(ctx, w.Plan.ID.UID)
	if err != nil {
		return err
	}
	w.Observed = seen
	if w.unrecorded != nil {
		w.Observed.PendingRestarts = w.unrecorded
	}
	return nil
}

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
type state struct {
	Node    *node.Node
	plan    *prepare.Plan
	obs     *lifecycle.Observed // what the runtime and the state files had
	journal *store.Journal
	prober  *probe.Prober // nil while no probes run
	// watchesGroup is true if the pod is to be created again without its cgroup, once it was
	// seen (groupSeen).
	watchesGroup, groupSeen bool
	// resizePending is what is known of a resize that the pod waits for.
	resizePending pendingResize
	// removedAtEnd is true if the command removes the pod when it ends, so hints must not
	// refer to the pod.
	removedAtEnd bool
	// unrecorded are the pending restarts that could not be written; nil if they are on disk.
	unrecorded map[string]lifecycle.PendingRestart
}

// pendingResize is why the pod cannot be resized to its source's definition: nil if it can. If
// it is not known, the stored reason applies.
type pendingResize struct {
	known  bool
	reason *lifecycle.ResizePending
}

func newState(n *node.Node, p *prepare.Plan) *state {
	return &state{Node: n, plan: p, obs: &lifecycle.Observed{}, journal: &store.Journal{Pod: p.ID, Next: n.Emit}}
}

func (w *state) pod() *corev1.Pod { return w.plan.Pod }

// emit reports an event about a container of the pod, or about the pod itself.
func (w *state) emit(kind, reason, container, message string) {
	path := ""
	if container != "" {
		path = lifecycle.FindContainer(w.pod(), container).EventPath
	}
	w.journal.Emit(event.Event{Type: kind, Reason: reason, FieldPath: path, Message: message})
}

func (w *state) world() lifecycle.World {
	world := lifecycle.World{Observed: w.obs, Hashes: w.plan.Hashes(), Now: time.Now(), Since: lifecycle.TakenOn(w.pod(), w.obs), BackOff: w.restartBackOff()}
	world.Started, _, world.Unhealthy = w.probed()
	if w.watchesGroup {
		exists := cgroup.ReadExists(w.plan.Cgroup)
		world.GroupLost = w.groupSeen && !exists
		w.groupSeen = w.groupSeen || exists
	}
	return world
}

func (w *state) restartBackOff() lifecycle.RestartBackOff {
	first, longest := w.Node.Settings.CrashLoopBackOff()
	return lifecycle.RestartBackOff{First: first, Longest: longest}
}

// observe reads the pod from the runtime and its state files. If that fails, what was known
// remains: nothing that podrun records may follow from a failed observation.
func (w *state) observe(ctx context.Context) error {
	seen, err := w.Node.Observe(ctx, w.plan.ID.UID)
	if err != nil {
		return err
	}
	w.obs = seen
	if w.unrecorded != nil {
		w.obs.PendingRestarts = w.unrecorded
	}
	return nil
}

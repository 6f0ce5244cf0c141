package pod

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// Pod is the state of one pod on this host. Its methods write the pod's records to disk. Only the
// holder of the pod's lease changes it. It is not safe for concurrent use, except for Emit.
type Pod struct {
	Node *node.Node
	Plan *prepare.Plan
	// as podrun last read it from the runtime and the state files
	Observed *lifecycle.Observed
	Journal  *store.Journal
	Prober   *probe.Prober // nil while no probes run
	// WatchesGroup is true if podrun must recreate the pod when the pod's cgroup disappears. This
	// applies only after podrun has observed the cgroup (groupSeen).
	WatchesGroup, groupSeen bool
	// ResizePending describes a resize that is not possible now.
	ResizePending PendingResize
	// RemovedAtEnd is true if the command removes the pod when it ends. Hints must then not refer
	// to the pod.
	RemovedAtEnd bool
	// unrecorded contains the pending restarts if podrun could not write them. It is nil if they
	// are on disk.
	unrecorded map[string]lifecycle.PendingRestart
}

// PendingResize describes why podrun cannot yet resize the pod to the resources in its source. Reason
// is nil if the resize is possible. If Known is false, the reason on disk still applies.
type PendingResize struct {
	Known  bool
	Reason *lifecycle.ResizePending
}

// New returns a Pod that contains only its plan.
func New(n *node.Node, p *prepare.Plan) *Pod {
	return &Pod{Node: n, Plan: p, Observed: &lifecycle.Observed{}, Journal: &store.Journal{Pod: p.ID, Next: n.Emit}}
}

// Spec returns the pod as its manifest defines it.
func (p *Pod) Spec() *corev1.Pod { return p.Plan.Pod }

// Emit reports an event about a container of the pod, or about the pod itself.
func (p *Pod) Emit(kind, reason, container, message string) {
	p.Journal.Emit(event.Event{Type: kind, Reason: reason, FieldPath: p.EventPath(container), Message: message})
}

// EventPath returns the field path of a container in events, or "" for the pod itself, whose container is "".
func (p *Pod) EventPath(container string) string {
	if container == "" {
		return ""
	}
	return lifecycle.FindContainer(p.Spec(), container).EventPath
}

// World returns the input of lifecycle.Next according to the last observation.
func (p *Pod) World() lifecycle.World {
	world := lifecycle.World{
		Observed:    p.Observed,
		Hashes:      p.Plan.Hashes(),
		CreateAhead: p.Plan.InitAhead(),
		Now:         time.Now(),
		Since:       lifecycle.StartTime(p.Spec(), p.Observed),
		BackOff:     p.RestartBackOff(),
	}
	world.Started, _, world.Unhealthy = p.Probed()
	if p.WatchesGroup {
		exists := cgroup.ReadExists(p.Plan.Cgroup)
		world.GroupLost = p.groupSeen && !exists
		p.groupSeen = p.groupSeen || exists
	}
	return world
}

// RestartBackOff returns the node's back-off for crashing containers.
func (p *Pod) RestartBackOff() lifecycle.RestartBackOff {
	first, longest := p.Node.Settings.CrashLoopBackOff()
	return lifecycle.RestartBackOff{First: first, Longest: longest}
}

// Observe reads the pod from the runtime and its state files. If that fails, Observe keeps the
// previous observation, because podrun must never record conclusions from a failed observation.
func (p *Pod) Observe(ctx context.Context) error {
	seen, err := p.Node.Observe(ctx, p.Plan.ID.UID)
	if err != nil {
		return err
	}
	p.Observed = seen
	if p.unrecorded != nil {
		p.Observed.PendingRestarts = p.unrecorded
	}
	return nil
}

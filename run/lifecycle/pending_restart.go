package lifecycle

import (
	"maps"
	"slices"
	"time"
)

// RestartCause is why podrun kills a container that it starts again. The kubelet decides to
// kill and to start in one pass (computePodActions in pkg/kubelet/kuberuntime); podrun records
// the cause before the kill, because a pass can be interrupted: the exit code of a container
// that podrun killed says nothing about what its restart policy requires.
type RestartCause string

// The causes.
const (
	// RestartChanged means that the definition of the container changed, or that a resize
	// requires its restart (KEP-1287). Its restart policy does not matter.
	RestartChanged RestartCause = "Changed"
	// RestartUnhealthy means that its startup or liveness probe failed. Its own restart policy,
	// otherwise that of the pod, is not Never; its restart rules do not count.
	RestartUnhealthy RestartCause = "Unhealthy"
	// RestartSandbox means that the pod is started over in a new sandbox. A pod whose restart
	// policy is Never is not; otherwise no policy of a container that ran matters.
	RestartSandbox RestartCause = "Sandbox"
)

// PendingRestart is a container that podrun kills, or has killed, to start it again.
type PendingRestart struct {
	ID      string       `json:"id"`
	Attempt uint32       `json:"attempt"` // its restart count
	Cause   RestartCause `json:"cause"`
	// NewSandbox is true if the containers are killed to start the pod over in a new sandbox.
	NewSandbox bool `json:"newSandbox,omitempty"`
}

// WithPendingRestarts returns the pending restarts with those of more containers, by ID. A
// container that is killed for a new sandbox keeps its earlier cause. The result is a new map.
func (o *Observed) WithPendingRestarts(cause RestartCause, ids ...string) map[string]PendingRestart {
	out := maps.Clone(o.PendingRestarts)
	if out == nil {
		out = map[string]PendingRestart{}
	}
	for _, c := range o.Containers {
		if !slices.Contains(ids, c.ID) {
			continue
		}
		p, pending := out[c.Name]
		if !pending || p.ID != c.ID || cause != RestartSandbox {
			p = PendingRestart{ID: c.ID, Attempt: c.Restarts, Cause: cause}
		}
		p.NewSandbox = p.NewSandbox || cause == RestartSandbox
		out[c.Name] = p
	}
	return out
}

// CurrentRestarts returns the pending restarts without those that are done: a newer container of
// the name was started; one that was only created does not count, because it may be removed
// again. Those whose containers run and were not asked to stop are left out as well:
// the causes are evaluated again. Ending are the containers that were asked to stop, by ID.
func (o *Observed) CurrentRestarts(ending map[string]time.Time) map[string]PendingRestart {
	out := maps.Clone(o.PendingRestarts)
	maps.DeleteFunc(out, func(name string, p PendingRestart) bool {
		return slices.ContainsFunc(o.Containers, func(c Container) bool {
			_, stops := ending[c.ID]
			switch {
			case c.Name != name:
				return false
			case c.ID == p.ID:
				return c.State == Running && !stops && !p.NewSandbox
			}
			return c.Restarts > p.Attempt && (c.State == Running || c.State == Exited)
		})
	})
	return out
}

// pendingRestart is the pending restart of a container, or of a later one of its name that is
// no longer observed; the zero value for none.
func (o *Observed) pendingRestart(c *Container) PendingRestart {
	if p, ok := o.PendingRestarts[c.Name]; ok && c.Restarts <= p.Attempt {
		return p
	}
	return PendingRestart{}
}

// leavesSandbox reports whether podrun has killed containers of the current sandbox, or was
// about to, to start the pod over in a new one.
func (o *Observed) leavesSandbox() bool {
	s := o.Sandbox()
	return s != nil && slices.ContainsFunc(o.Containers, func(c Container) bool {
		p := o.PendingRestarts[c.Name]
		return c.SandboxID == s.ID && p.ID == c.ID && p.NewSandbox
	})
}

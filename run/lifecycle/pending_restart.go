package lifecycle

import (
	"maps"
	"slices"
	"time"
)

// RestartCause is the reason why podrun kills a container and starts it again. The kubelet decides in one
// pass to kill a container and to start it again (computePodActions in pkg/kubelet/kuberuntime). podrun
// records the cause before the kill, because podrun can be interrupted between the two, and the exit code of
// a container that podrun killed does not show whether the container must be started again.
type RestartCause string

// The causes.
const (
	// RestartChanged means that the definition of the container changed, or that a resize requires its
	// restart (KEP-1287). Its restart policy is ignored.
	RestartChanged RestartCause = "Changed"
	// RestartUnhealthy means that the container's startup or liveness probe failed. The container is started
	// again unless its restart policy, or else the pod's, is Never; its restart rules are ignored.
	RestartUnhealthy RestartCause = "Unhealthy"
	// RestartSandbox means that the pod is started over in a new sandbox, unless its restart policy is
	// Never. The containers' own policies are ignored.
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

// WithPendingRestarts returns a copy of the pending restarts to which the containers with these IDs are
// added. A container that is killed for a new sandbox keeps its earlier cause.
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

// CurrentRestarts returns the pending restarts that are not complete. A restart is complete when a newer
// container of that name was started; a container that was created but not yet started does not count,
// because it may be removed again. CurrentRestarts also omits running containers that were not asked to
// stop, because the causes are evaluated again for them. The argument ending contains the containers that
// were asked to stop, by ID.
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

// pendingRestart returns the pending restart of a container, or that of a newer container of the same name
// that is no longer observed; the zero value if there is none.
func (o *Observed) pendingRestart(c *Container) PendingRestart {
	if p, ok := o.PendingRestarts[c.Name]; ok && c.Restarts <= p.Attempt {
		return p
	}
	return PendingRestart{}
}

// restartsInNewSandbox reports whether podrun has killed containers of the current sandbox, or was about to,
// in order to start the pod over in a new one.
func (o *Observed) restartsInNewSandbox() bool {
	s := o.Sandbox()
	return s != nil && slices.ContainsFunc(o.Containers, func(c Container) bool {
		p := o.PendingRestarts[c.Name]
		return c.SandboxID == s.ID && p.ID == c.ID && p.NewSandbox
	})
}

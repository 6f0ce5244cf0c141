package lifecycle

import (
	"maps"
	"slices"
	"time"
)

// RestartCause is the reason why podrun kills a container and starts it again. The kubelet decides in one
// pass to kill a container and to start it again (computePodActions in pkg/kubelet/kuberuntime). podrun
// records the cause before the kill, because it can be interrupted between the kill and the restart. The
// exit code of a container that podrun killed does not show whether the container must be started again.
type RestartCause string

// The causes.
const (
	// RestartChanged means that the definition of the container changed, that a resize requires its
	// restart (KEP-1287), or that a command recreates the pod. podrun ignores the container's restart policy.
	RestartChanged RestartCause = "Changed"
	// RestartUnhealthy means that the container's startup or liveness probe failed. podrun starts the
	// container again unless its restart policy is Never. If the container has no restart policy, the pod's
	// policy applies. podrun ignores the container's restart rules.
	RestartUnhealthy RestartCause = "Unhealthy"
	// RestartSandbox means that podrun restarts the pod in a new sandbox, unless the pod's restart
	// policy is Never. podrun ignores the containers' own policies.
	RestartSandbox RestartCause = "Sandbox"
)

// PendingRestart is a container that podrun has killed, or is about to kill, in order to start
// it again.
type PendingRestart struct {
	ID      string `json:"id"`
	Attempt uint32 `json:"attempt"` // the restart count of the killed container
	// CreatedAt is the creation time of the killed container, in nanoseconds since 1970. It is 0 if an older
	// version of podrun wrote the record.
	CreatedAt int64        `json:"createdAt,omitempty"`
	Cause     RestartCause `json:"cause"`
	// NewSandbox is true if podrun kills the containers in order to restart the pod in a new
	// sandbox.
	NewSandbox bool `json:"newSandbox,omitempty"`
}

// WithPendingRestarts returns a copy of the pending restarts, with the containers of the given IDs
// added. If a container already has a cause and is killed for a new sandbox, it keeps that cause.
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
			p = PendingRestart{ID: c.ID, Attempt: c.Restarts, CreatedAt: c.CreatedAt.UnixNano(), Cause: cause}
		}
		p.NewSandbox = p.NewSandbox || cause == RestartSandbox
		out[c.Name] = p
	}
	return out
}

// CurrentRestarts returns the pending restarts that are not complete. A restart is complete when a newer
// container of that name has been started. A newer container that was only created does not complete a
// restart, because podrun may remove it again. CurrentRestarts also omits running containers that podrun
// has not asked to stop, because podrun makes a new decision about these. The argument ending contains, by
// ID, the containers that podrun has asked to stop.
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
			return p.replacedBy(&c) && (c.State == Running || c.State == Exited)
		})
	})
	return out
}

// replacedBy reports whether c, a container of the same name, is newer than the killed container. If podrun has
// removed all containers of the pod, the restart count of c begins at 0 again.
func (p PendingRestart) replacedBy(c *Container) bool {
	return c.ID != p.ID && (c.Restarts > p.Attempt || p.CreatedAt != 0 && c.CreatedAt.UnixNano() > p.CreatedAt)
}

// pendingRestart returns the pending restart of a container, or the zero value if it has none. A pending restart
// of a newer container with the same name also applies to c, because the observation may not contain the newer
// one.
func (o *Observed) pendingRestart(c *Container) PendingRestart {
	if p, ok := o.PendingRestarts[c.Name]; ok && !p.replacedBy(c) {
		return p
	}
	return PendingRestart{}
}

// restartsInNewSandbox reports whether podrun has killed containers of the current sandbox, or was about to
// do so, in order to restart the pod in a new one.
func (o *Observed) restartsInNewSandbox() bool {
	s := o.Sandbox()
	return s != nil && slices.ContainsFunc(o.Containers, func(c Container) bool {
		p := o.PendingRestarts[c.Name]
		return c.SandboxID == s.ID && p.ID == c.ID && p.NewSandbox
	})
}

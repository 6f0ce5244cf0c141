package lifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
)

// Kept is the part of a pod's status that cannot be derived from the runtime's records.
// The owner of the pod writes it when it changes, for other commands and for later
// owners. The zero value means that no status was written.
type Kept struct {
	// Phase is Succeeded or Failed of a pod that has ended, and empty for any other.
	// A terminal phase is never undone (pkg/kubelet/status/status_manager.go).
	Phase   corev1.PodPhase `json:"phase,omitempty"`
	Reason  string          `json:"reason,omitempty"`  // of the phase: DeadlineExceeded, Evicted…
	Message string          `json:"message,omitempty"` // of the phase
	// Conditions are the kubelet's own conditions.
	Conditions []KeptCondition `json:"conditions,omitempty"`
	// OOMKilled are the IDs of the containers whose OOM kill was reported.
	OOMKilled []string `json:"oomKilled,omitempty"`
	// Evicted is how the pod was evicted; nil if it was not.
	Evicted *Evicted `json:"evicted,omitempty"`
	// StartFailures are why the last starts of containers failed, by name.
	StartFailures map[string]StartFailure `json:"startFailures,omitempty"`
	// Unmade are the last containers of each name that could not be created.
	Unmade []Container `json:"unmade,omitempty"`
	// Removed are the most recent containers of each name with their exits, of a pod that is
	// being removed: the removal takes them from the runtime first.
	Removed []Container `json:"removed,omitempty"`
	// ShutDown is when the pod was stopped because the node shuts down; zero if it was
	// not, or runs again.
	ShutDown time.Time `json:"shutDown,omitzero"`
	// ResizePending is a resize in place that this host cannot do now; nil for none.
	ResizePending *ResizePending `json:"resizePending,omitempty"`
}

// ResizePending is why a resize in place was not begun: it is Deferred while others
// have the resources, or Infeasible (KEP-1287).
type ResizePending struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Is reports whether two values are equal; nil means none.
func (p *ResizePending) Is(other *ResizePending) bool {
	return p == other || p != nil && other != nil && *p == *other
}

// Evicted is the record of a pod's eviction. Its phase is Failed.
type Evicted struct {
	At time.Time `json:"at"`
	// ForNode is true if the pod was evicted because the node was short of a resource, not because
	// the pod exceeded a limit. The pod then has the condition DisruptionTarget.
	ForNode bool `json:"forNode,omitempty"`
	// Containers are the most recent containers of each name with their exits; the
	// eviction removed them from the runtime to free disk space.
	Containers []Container `json:"containers,omitempty"`
}

// ReasonEvicted is the reason of a pod that was evicted (pkg/kubelet/eviction).
const ReasonEvicted = "Evicted"

// Evict is k of a pod that is evicted.
func (k Kept) Evict(message string, forNode bool, now time.Time) Kept {
	k.Phase, k.Reason, k.Message = corev1.PodFailed, ReasonEvicted, message
	k.Evicted = &Evicted{At: now, ForNode: forNode}
	return k
}

// StopForShutdown is k of a pod that is stopped because the node shuts down.
func (k Kept) StopForShutdown(reason, message string, now time.Time) Kept {
	k.Phase, k.Reason, k.Message, k.ShutDown = corev1.PodFailed, reason, message, now
	return k
}

// AfterShutdown is k of a pod that runs again after the node's shutdown, or after that
// was canceled.
func (k Kept) AfterShutdown() Kept {
	if !k.ShutDown.IsZero() {
		k.Phase, k.Reason, k.Message, k.ShutDown = "", "", "", time.Time{}
	}
	return k
}

// disrupted is when the pod was evicted or stopped for the node's sake; zero if it was
// not.
func (k Kept) disrupted() time.Time {
	if k.Evicted != nil && k.Evicted.ForNode {
		return k.Evicted.At
	}
	return k.ShutDown
}

// WithContainers is k of an evicted pod with how its containers have ended.
func (k Kept) WithContainers(all []Container) Kept {
	e := *k.Evicted
	e.Containers = lastExits(all)
	k.Evicted = &e
	return k
}

// WithRemoved is k of a pod that is being removed with how its containers have ended.
func (k Kept) WithRemoved(all []Container) Kept {
	k.Removed = lastExits(slices.Concat(all, k.Removed))
	return k
}

// WithRemoved is o with the containers of a pod that is being removed that the runtime no
// longer has. It is for showing the pod only: they need not be removed.
func (o *Observed) WithRemoved() *Observed {
	shown := *o
	shown.Containers = slices.Clone(o.Containers)
	for _, c := range o.Kept.Removed {
		if !slices.ContainsFunc(o.Containers, func(have Container) bool { return have.ID == c.ID }) {
			shown.Containers = append(shown.Containers, c)
		}
	}
	shown.Order()
	return &shown
}

// lastExits are the first containers of each name that have exited, of a list with the
// newest first.
func lastExits(all []Container) (out []Container) {
	for _, c := range all {
		if slices.ContainsFunc(out, func(kept Container) bool { return kept.Name == c.Name }) || c.State != Exited {
			continue
		}
		c.Annotations, c.Message = nil, event.CutBytes(c.Message, maxKeptMessage)
		out = append(out, c)
	}
	return out
}

// maxKeptMessage bounds how a container's end is described, in bytes.
const maxKeptMessage = 1024

// WithUnmade is k with a container that could not be created, in place of an earlier one
// of its name.
func (k Kept) WithUnmade(c Container) Kept {
	k = k.WithoutUnmade(c.Name)
	c.Message = event.CutBytes(c.Message, maxKeptMessage)
	k.Unmade = append(k.Unmade, c)
	return k
}

// WithoutUnmade is k without such a container of a name.
func (k Kept) WithoutUnmade(name string) Kept {
	k.Unmade = slices.DeleteFunc(slices.Clone(k.Unmade), func(c Container) bool { return c.Name == name })
	return k
}

// PutKept adds the containers of an evicted pod that the runtime no longer has, and those
// that it could not create in sandboxes that it has.
func (o *Observed) PutKept() {
	var kept []Container
	if o.Kept.Evicted != nil {
		kept = o.Kept.Evicted.Containers
	}
	for _, c := range slices.Concat(kept, o.Kept.Unmade) {
		gone := c.Unmade && o.Kept.Evicted == nil && !slices.ContainsFunc(o.Sandboxes, func(s Sandbox) bool { return s.ID == c.SandboxID })
		if !gone && !slices.ContainsFunc(o.Containers, func(have Container) bool { return have.ID == c.ID }) {
			o.Containers = append(o.Containers, c)
		}
	}
	o.Order()
}

// KeptCondition is a condition with the time at which it got its status.
type KeptCondition struct {
	Type   corev1.PodConditionType `json:"type"`
	Status corev1.ConditionStatus  `json:"status"`
	Since  time.Time               `json:"since"`
}

// Terminal reports whether the pod has ended for good: whatever the runtime has of it,
// nothing of it is started again.
func (k Kept) Terminal() bool { return k.Phase == corev1.PodSucceeded || k.Phase == corev1.PodFailed }

// Equal reports whether two values are equal.
func (k Kept) Equal(other Kept) bool {
	return k.Phase == other.Phase && k.Reason == other.Reason && k.Message == other.Message && slices.Equal(k.OOMKilled, other.OOMKilled) && slices.EqualFunc(k.Unmade, other.Unmade, func(a, b Container) bool { return a.ID == b.ID }) && k.Evicted == other.Evicted && k.ShutDown.Equal(other.ShutDown) && k.ResizePending.Is(other.ResizePending) &&
		maps.EqualFunc(k.StartFailures, other.StartFailures, func(a, b StartFailure) bool {
			return a.Waiting == b.Waiting && a.At.Equal(b.At) && a.Newest == b.Newest
		}) &&
		slices.EqualFunc(k.Conditions, other.Conditions, func(a, b KeptCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Since.Equal(b.Since)
		})
}

// Keep returns the part of a status to be kept. Ended is the Ended of Next: the phase is
// kept only for a pod that has ended without being stopped, because a stopped pod can be
// started again.
func Keep(status corev1.PodStatus, ended bool) Kept {
	var k Kept
	if terminal := (Kept{Phase: status.Phase}); ended && terminal.Terminal() {
		k.Phase, k.Reason, k.Message = status.Phase, status.Reason, status.Message
	}
	for _, c := range status.Conditions {
		if slices.Contains(ownConditions, c.Type) {
			k.Conditions = append(k.Conditions, KeptCondition{c.Type, c.Status, c.LastTransitionTime.Time})
		}
	}
	return k
}

// OOMKilled lists the containers that were killed for their memory, newest first.
func (o *Observed) OOMKilled() []Container {
	var out []Container
	for _, c := range o.Containers {
		if c.State == Exited && c.Reason == oomKilled {
			out = append(out, c)
		}
	}
	return out
}

// oomKilled is the reason that runtimes give a container of which the kernel killed a
// process for its memory (cri-api, ContainerStatus.reason).
const oomKilled = "OOMKilled"

// condition finds a condition that was kept; nil if it was not.
func (k Kept) condition(kind corev1.PodConditionType) *KeptCondition {
	at := slices.IndexFunc(k.Conditions, func(c KeptCondition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &k.Conditions[at]
}

// since returns the time of a condition's last transition. Derived is the time that
// follows from the runtime's timestamps. If the status differs from the kept one, it has
// changed after that: at the derived time if that is later, otherwise now. If probes
// decide a condition that became true, only the current time is known, because the
// runtime has no knowledge of probes.
func (k Kept) since(c corev1.PodCondition, derived, now time.Time, probed bool) time.Time {
	old := k.condition(c.Type)
	switch {
	case old == nil:
		return derived
	case old.Status == c.Status:
		return old.Since
	case derived.After(old.Since) && !(probed && c.Status == corev1.ConditionTrue):
		return derived
	}
	return now
}

// ProbePeriod is the shortest period of the probes by which it is known whether the
// running containers of a pod have started and are ready; 0 if there are none.
func ProbePeriod(pod *corev1.Pod, obs *Observed) (shortest time.Duration) {
	if pod == nil {
		return 0
	}
	for _, c := range SpecContainers(pod) {
		have := obs.Container(c.Container.Name)
		for _, p := range []*corev1.Probe{c.Container.StartupProbe, c.Container.ReadinessProbe} {
			if p == nil || have == nil || have.State != Running {
				continue
			}
			if period := time.Duration(max(p.PeriodSeconds, 1)) * time.Second; shortest == 0 || period < shortest {
				shortest = period
			}
		}
	}
	return shortest
}

// hasProbes reports whether the readiness of a container of the pod depends on probes.
func hasProbes(pod *corev1.Pod) bool {
	return slices.ContainsFunc(SpecContainers(pod), func(c specContainer) bool {
		return c.Container.ReadinessProbe != nil || c.Container.StartupProbe != nil
	})
}

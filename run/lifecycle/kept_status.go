package lifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/event"
)

// Kept is the part of a pod's status that podrun cannot derive from the runtime's records. When this
// part changes, the pod's owner writes it to disk, for other commands and later owners. The zero value
// means that no owner has written a status.
type Kept struct {
	// Phase is Succeeded or Failed for a pod that has ended, and empty otherwise. A terminal phase is
	// final (pkg/kubelet/status/status_manager.go).
	Phase   corev1.PodPhase `json:"phase,omitempty"`
	Reason  string          `json:"reason,omitempty"`  // for the phase: DeadlineExceeded, Evicted…
	Message string          `json:"message,omitempty"` // for the phase
	// PodIPs are the addresses of the pod's last sandbox; nil for a pod of the host's network. The status of a
	// pod that has ended keeps them, but a runtime forgets the addresses of a stopped sandbox.
	PodIPs []string `json:"podIPs,omitempty"`
	// Conditions are the kubelet's own conditions.
	Conditions []KeptCondition `json:"conditions,omitempty"`
	// OOMKilled are the IDs of the containers for which podrun has reported an OOM kill.
	OOMKilled []string `json:"oomKilled,omitempty"`
	// Evicted describes why and when podrun evicted the pod; nil if it did not.
	Evicted *Evicted `json:"evicted,omitempty"`
	// StartFailures contains, by container name, why the last attempt to start the container
	// failed.
	StartFailures map[string]StartFailure `json:"startFailures,omitempty"`
	// CreateFailures contains, for each container name, the last failed attempt to create the
	// container.
	CreateFailures []Container `json:"unmade,omitempty"`
	// Removed are the last exited containers of a pod that podrun is removing, one for each name.
	// They are kept here because podrun first removes them from the runtime.
	Removed []Container `json:"removed,omitempty"`
	// ShutDown is the time at which podrun stopped the pod because the node was shutting down. It is
	// zero if podrun did not stop the pod for this reason, or if the pod has been started again
	// since.
	ShutDown time.Time `json:"shutDown,omitzero"`
	// ResizePending is an in-place resize that cannot be done now; nil if no resize is pending.
	ResizePending *ResizePending `json:"resizePending,omitempty"`
}

// ResizePending explains why an in-place resize has not begun: it is Deferred while other pods use the
// resources, or Infeasible (KEP-1287).
type ResizePending struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Is reports whether two values are equal; nil means that no resize is pending.
func (p *ResizePending) Is(other *ResizePending) bool {
	return p == other || p != nil && other != nil && *p == *other
}

// Evicted is the record of a pod's eviction. Its phase is Failed.
type Evicted struct {
	At time.Time `json:"at"`
	// ForNode is true if podrun evicted the pod because the node was short of a resource: the pod then
	// has the condition DisruptionTarget. It is false if the pod exceeded a limit.
	ForNode bool `json:"forNode,omitempty"`
	// Containers are the last exited containers, one for each name. The eviction removed them from the
	// runtime to free disk space.
	Containers []Container `json:"containers,omitempty"`
}

// ReasonEvicted is the reason of an evicted pod (pkg/kubelet/eviction).
const ReasonEvicted = "Evicted"

// Evict returns k with a record of an eviction that begins at the time now.
func (k Kept) Evict(message string, forNode bool, now time.Time) Kept {
	k.Phase = corev1.PodFailed
	k.Reason = ReasonEvicted
	k.Message = message
	k.Evicted = &Evicted{At: now, ForNode: forNode}
	return k
}

// StopForShutdown returns k with a record that podrun stops the pod because the node shuts down.
func (k Kept) StopForShutdown(reason, message string, now time.Time) Kept {
	k.Phase = corev1.PodFailed
	k.Reason = reason
	k.Message = message
	k.ShutDown = now
	return k
}

// AfterShutdown returns k without the record of the shutdown. The pod runs again, because the host has
// booted or the shutdown was canceled.
func (k Kept) AfterShutdown() Kept {
	if !k.ShutDown.IsZero() {
		k.Phase = ""
		k.Reason = ""
		k.Message = ""
		k.ShutDown = time.Time{}
	}
	return k
}

// disrupted returns the time at which podrun evicted or stopped the pod because of the node. It
// returns zero if podrun did neither.
func (k Kept) disrupted() time.Time {
	if k.Evicted != nil && k.Evicted.ForNode {
		return k.Evicted.At
	}
	return k.ShutDown
}

// WithContainers returns k, the record of an evicted pod, with the exits of the pod's containers.
func (k Kept) WithContainers(all []Container) Kept {
	e := *k.Evicted
	e.Containers = lastExits(all)
	k.Evicted = &e
	return k
}

// WithRemoved returns k, the record of a pod that podrun is removing, with the exits of the pod's
// containers.
func (k Kept) WithRemoved(all []Container) Kept {
	k.Removed = lastExits(slices.Concat(all, k.Removed))
	return k
}

// WithRemoved adds to o the recorded containers of a pod that podrun is removing, if the runtime no
// longer has them. The result is only for display: podrun need not remove these containers.
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

// lastExits returns the newest exited container of each name. The list is sorted from newest to oldest.
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

// maxKeptMessage limits the length of a container's message, in bytes.
const maxKeptMessage = 1024

// WithCreateFailure returns k with c, a container that could not be created. c replaces an earlier one
// with the same name.
func (k Kept) WithCreateFailure(c Container) Kept {
	k = k.WithoutCreateFailure(c.Name)
	c.Message = event.CutBytes(c.Message, maxKeptMessage)
	k.CreateFailures = append(k.CreateFailures, c)
	return k
}

// WithoutCreateFailure returns k without the failure to create the container with the given name.
func (k Kept) WithoutCreateFailure(name string) Kept {
	k.CreateFailures = slices.DeleteFunc(slices.Clone(k.CreateFailures), func(c Container) bool { return c.Name == name })
	return k
}

// PutKept adds containers that the runtime does not have: the containers of an evicted pod, and
// those that the runtime could not create, as long as their sandbox exists.
func (o *Observed) PutKept() {
	var kept []Container
	if o.Kept.Evicted != nil {
		kept = o.Kept.Evicted.Containers
	}
	for _, c := range slices.Concat(kept, o.Kept.CreateFailures) {
		gone := c.CreateFailed && o.Kept.Evicted == nil && !slices.ContainsFunc(o.Sandboxes, func(s Sandbox) bool { return s.ID == c.SandboxID })
		if !gone && !slices.ContainsFunc(o.Containers, func(have Container) bool { return have.ID == c.ID }) {
			o.Containers = append(o.Containers, c)
		}
	}
	o.Order()
}

// KeptCondition is a condition with the time of its last transition.
type KeptCondition struct {
	Type   corev1.PodConditionType `json:"type"`
	Status corev1.ConditionStatus  `json:"status"`
	Since  time.Time               `json:"since"`
}

// Terminal reports whether the pod has ended permanently: podrun does not restart any of its
// containers, whatever the runtime reports.
func (k Kept) Terminal() bool { return k.Phase == corev1.PodSucceeded || k.Phase == corev1.PodFailed }

// IsReady reports whether the pod was ready when its owner last recorded its status.
func (k Kept) IsReady() bool {
	c := k.condition(corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Equal reports whether two values are equal.
func (k Kept) Equal(other Kept) bool {
	return k.Phase == other.Phase && slices.Equal(k.PodIPs, other.PodIPs) && k.Reason == other.Reason && k.Message == other.Message && slices.Equal(k.OOMKilled, other.OOMKilled) && slices.EqualFunc(k.CreateFailures, other.CreateFailures, func(a, b Container) bool { return a.ID == b.ID }) && k.Evicted == other.Evicted && k.ShutDown.Equal(other.ShutDown) && k.ResizePending.Is(other.ResizePending) &&
		maps.EqualFunc(k.StartFailures, other.StartFailures, func(a, b StartFailure) bool {
			return a.Waiting == b.Waiting && a.At.Equal(b.At) && a.Newest == b.Newest
		}) &&
		slices.EqualFunc(k.Conditions, other.Conditions, func(a, b KeptCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Since.Equal(b.Since)
		})
}

// Keep returns the part of a status that podrun records. The argument ended is Decision.Ended. Keep
// includes the phase only if the pod has ended without being stopped, because a stopped pod can be
// started again.
func Keep(status corev1.PodStatus, ended bool) Kept {
	var k Kept
	if terminal := (Kept{Phase: status.Phase}); ended && terminal.Terminal() {
		k.Phase = status.Phase
		k.Reason = status.Reason
		k.Message = status.Message
	}
	for _, c := range status.Conditions {
		if slices.Contains(ownConditions, c.Type) {
			k.Conditions = append(k.Conditions, KeptCondition{c.Type, c.Status, c.LastTransitionTime.Time})
		}
	}
	return k
}

// OOMKilled lists the containers that were killed because they ran out of memory, newest first.
func (o *Observed) OOMKilled() []Container {
	var out []Container
	for _, c := range o.Containers {
		if c.State == Exited && c.Reason == oomKilled {
			out = append(out, c)
		}
	}
	return out
}

// oomKilled is the reason that runtimes report for a container if the kernel's OOM killer killed one of
// its processes (cri-api, ContainerStatus.reason).
const oomKilled = "OOMKilled"

// condition returns a recorded condition; nil if there is none.
func (k Kept) condition(kind corev1.PodConditionType) *KeptCondition {
	at := slices.IndexFunc(k.Conditions, func(c KeptCondition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &k.Conditions[at]
}

// since returns the time of a condition's last transition. The argument derived is the transition time
// that follows from the runtime's timestamps. If the status differs from the recorded one, it changed
// after the recorded transition: at the derived time if that is later than the recorded one, otherwise
// now. If probes have made the condition true, since returns now, because the runtime has no record of
// probes.
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

// ProbePeriod returns the shortest period of the startup and readiness probes of the pod's running
// containers. It is 0 if there are none.
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

// hasProbes reports whether the readiness of any container of the pod depends on probes.
func hasProbes(pod *corev1.Pod) bool {
	return slices.ContainsFunc(SpecContainers(pod), func(c specContainer) bool {
		return c.Container.ReadinessProbe != nil || c.Container.StartupProbe != nil
	})
}

// Package event defines the events that podrun reports while it works. They are the kubelet's
// events. Package cmd prints each of them as text or JSON.
package event

import "time"

// These are the two types of an event, as in the Kubernetes API.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Event reports something that happened to a pod or to a Service. If the kubelet emits the same event, Reason and
// Message are the kubelet's.
type Event struct {
	Time      time.Time `json:"time"` // time of the last occurrence
	Type      string    `json:"type"`
	Reason    string    `json:"reason"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod,omitempty"`  // name of the pod; empty for an object of another kind
	Kind      string    `json:"kind,omitempty"` // kind of an object that is not a pod: Service
	Name      string    `json:"name,omitempty"` // name of an object that is not a pod
	UID       string    `json:"uid,omitempty"`
	FieldPath string    `json:"fieldPath,omitempty"` // spec.containers{app}; empty for the pod itself
	Message   string    `json:"message"`
	Pull      *Pull     `json:"pull,omitempty"` // only set in PullProgress
	Stop      *Stop     `json:"stop,omitempty"` // only set in StopProgress
	// Repeats is set if another event, or the error with which the command ends, has the same content. Text for
	// people omits such an event.
	Repeats bool `json:"-"`

	// Count is the number of occurrences. First is the time of the first one. Both are zero if the
	// event occurred once.
	Count int       `json:"count,omitempty"`
	First time.Time `json:"firstTimestamp,omitzero"`
}

// Object returns the kind and the name of the event's object.
func (e Event) Object() (kind, name string) {
	if e.Kind != "" {
		return e.Kind, e.Name
	}
	return "Pod", e.Pod
}

// began returns the time of the event's first occurrence.
func (e Event) began() time.Time {
	if e.First.IsZero() {
		return e.Time
	}
	return e.First
}

// Sink receives events as they happen. It must be safe for concurrent use. It must not block for
// long, because podrun's work on the pod does not continue until it returns.
type Sink func(Event)

// These are the reasons of the kubelet that podrun uses (pkg/kubelet/events/event.go, v1.36).
const (
	CreatedContainer                = "Created"
	StartedContainer                = "Started"
	FailedToCreate                  = "Failed"
	FailedToStart                   = "Failed"
	KillingContainer                = "Killing"
	BackOffStart                    = "BackOff"
	PullingImage                    = "Pulling"
	PulledImage                     = "Pulled"
	FailedToPullImage               = "Failed"
	FailedToInspectImage            = "InspectFailed"
	ErrImageNeverPull               = "ErrImageNeverPull"
	BackOffPullImage                = "BackOff"
	FailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret"
	FailedCreatePodSandBox          = "FailedCreatePodSandBox"
	SandboxChanged                  = "SandboxChanged"
	FailedMountVolume               = "FailedMount"
	FailedPostStartHook             = "FailedPostStartHook"
	FailedPreStopHook               = "FailedPreStopHook"
	UnhealthyContainer              = "Unhealthy"
	ProbeWarning                    = "ProbeWarning"
	DNSConfigForming                = "DNSConfigForming"
	MissingClusterDNS               = "MissingClusterDNS"
	Preempting                      = "Preempting"
	ResizeStarted                   = "ResizeStarted"
	ResizeCompleted                 = "ResizeCompleted"
	ResizeError                     = "ResizeError"
	ResizeDeferred                  = "ResizeDeferred"
	ResizeInfeasible                = "ResizeInfeasible"
	Evicted                         = "Evicted" // from pkg/kubelet/eviction
	// NodeShutdown is also the reason why podrun refuses pods during a shutdown.
	NodeShutdown = "NodeShutdown"
	// OOMKilling is a reason of the node problem detector (config/kernel-monitor.json). The
	// kubelet reports only OOM kills outside containers, as SystemOOM of the node
	// (pkg/kubelet/oom).
	OOMKilling = "OOMKilling"
	// CheckpointCorrupt is podrun's own reason: the kubelet does not store pod definitions.
	CheckpointCorrupt = "CheckpointCorrupt"
	// CheckpointUnreadable means that the system cannot read the checkpoint, whose content may be intact.
	CheckpointUnreadable = "CheckpointUnreadable"
	// DefinitionIgnored is podrun's own reason: several files define the pod, and another one has precedence.
	DefinitionIgnored = "DefinitionIgnored"
	// UpdatePending is podrun's own reason: podrun could not put the definition of a file into effect, and keeps the
	// pod as it is.
	UpdatePending = "UpdatePending"
	// UpdateComplete is podrun's own reason: podrun has watched an update, and its definition is good.
	UpdateComplete = "UpdateComplete"
	// RolledBack is podrun's own reason: an update failed, and podrun has restored the last good definition.
	RolledBack = "RolledBack"
	// ProgressDeadlineExceeded is the reason of a Deployment's condition: an update failed. podrun uses it if it has no
	// good definition to restore.
	ProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ConfigChanged is podrun's own reason: a supervisor applied changed ConfigMaps and Secrets of a file to a pod.
	ConfigChanged = "ConfigChanged"
	// NoEndpoints and EndpointsReady are podrun's own reasons: no pod that a Service selects is ready, so that
	// connections to the Service fail; and a pod is ready again.
	NoEndpoints    = "NoEndpoints"
	EndpointsReady = "EndpointsReady"
	// RuntimeStoreReplaced is podrun's own reason: the kubelet does not manage the runtime.
	RuntimeStoreReplaced = "RuntimeStoreReplaced"
)

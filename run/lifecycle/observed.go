package lifecycle

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// State is the state of a container, as in the CRI.
type State string

// The states of a container.
const (
	Created State = "Created"
	Running State = "Running"
	Exited  State = "Exited"
	Unknown State = "Unknown"
)

// Sandbox is a sandbox of a pod, as reported by the runtime.
type Sandbox struct {
	ID          string       `json:"id"`
	Pod         identity.Pod `json:"pod"`
	Attempt     uint32       `json:"attempt"`
	Ready       bool         `json:"ready"`
	CreatedAt   time.Time    `json:"createdAt"`
	HostNetwork bool         `json:"hostNetwork,omitempty"`
	Handler     string       `json:"handler,omitempty"` // the runtime handler; "" is the default
	IPs         []string     `json:"ips,omitempty"`
	Managed     bool         `json:"managed"` // has podrun's annotation
	// root directory for which it was created; empty if it is this process's root directory
	RootDir    string
	Invocation string `json:"invocation,omitempty"`
	// generation of the owner that created it
	Generation string            `json:"generation,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Container is one attempt of a container.
type Container struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	SandboxID  string    `json:"sandboxID"`
	State      State     `json:"state"`
	Restarts   uint32    `json:"restarts"` // number of earlier starts of containers of that name
	Image      string    `json:"image"`    // as in the pod's spec
	ImageID    string    `json:"imageID"`  // the runtime's reference to the image
	Hash       string    `json:"hash"`     // hash of the spec from which it was created
	CreatedAt  time.Time `json:"createdAt"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	ExitCode   int32     `json:"exitCode"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	LogPath    string    `json:"logPath,omitempty"` // an absolute path
	PID        int       `json:"pid,omitempty"`     // process ID on this host, if the runtime reports it
	// ProcessExited is true for a running container whose first process has exited, if the runtime
	// has not reported the exit yet. It is false unless podrun and the runtime see the same process
	// IDs.
	ProcessExited bool `json:"-"`
	// User is the identity with which the container's first process was started. It is nil if the
	// runtime does not report it (containerd 1.x).
	User *corev1.ContainerUser `json:"user,omitempty"`
	// Actual has the container's current resources. It is nil if the runtime does not report them
	// (containerd 1.6).
	Actual *Actual `json:"actual,omitempty"`

	// TerminationLog is the path, on this host, of the file for the container's termination message.
	TerminationLog string `json:"terminationLog,omitempty"`

	// CreateFailed is true for a container that the runtime failed to create because it cannot execute the
	// container's program. Such a container exists only in podrun's records: its state is exited, and
	// podrun generated its ID.
	CreateFailed bool `json:"unmade,omitempty"`

	// Annotations are the annotations with which the container was created. They are available even if the
	// pod's checkpoint is lost.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Probed is the last result of a container's probes.
type Probed struct {
	Started bool `json:"started"`
	Ready   bool `json:"ready"`
}

// HookState is the recorded state of a container's postStart hook.
type HookState string

// A hook becomes pending before its container starts, and remains pending until it has ended. If podrun
// is killed before that, the next podrun process runs the hook (k/k#60053, k/k#122803).
const (
	HookPending HookState = "Pending"
	HookDone    HookState = "Done"
	// HookFailed means that a hook failed after the command that ran it had lost ownership of the
	// pod. The new owner kills the container.
	HookFailed HookState = "Failed"
)

// Observed is the state of a pod in the runtime and in its directory.
type Observed struct {
	// ReadAt is the time immediately before the runtime was read. The observation does not include
	// later changes, unless this process made or detected them.
	ReadAt     time.Time            `json:"-"`
	Sandboxes  []Sandbox            `json:"sandboxes"`  // newest first
	Containers []Container          `json:"containers"` // newest first
	Hooks      map[string]HookState `json:"hooks,omitempty"`
	// Restarted contains the IDs of the containers that ended in the last restart of all containers
	// (KEP-5532). Next ignores these containers. Creation times would not identify them, because the
	// host's clock can be changed.
	Restarted map[string]bool `json:"restarted,omitempty"`
	// PendingRestarts contains, by name, the containers that podrun has killed, or is about to kill,
	// in order to restart them. podrun records an entry before it kills the container. The entry
	// applies until a newer container with this name has been started.
	PendingRestarts map[string]PendingRestart `json:"pendingRestarts,omitempty"`
	Probes          map[string]Probed         `json:"probes,omitempty"` // the last results of the probes, by container ID
	// ProbedAt is the last time at which Probes was known to be valid. It is zero if there are no
	// results.
	ProbedAt time.Time `json:"-"`
	// Kept is the part of the pod's status that the pod's owner recorded.
	Kept Kept `json:"kept,omitzero"`
	// Resize is an in-place resize in progress; nil if there is none.
	Resize *Resize `json:"resize,omitempty"`
	// ImageFailures are the reasons why containers wait for their images, by container name. The
	// process that pulls the images records them.
	ImageFailures map[string]Failure `json:"imageFailures,omitempty"`
	// LoggedRuns contains, for each container name that the runtime does not have, the number of runs that
	// have left logs. If the runtime has lost its containers, the restart count continues from this number,
	// so that new runs do not overwrite these logs.
	LoggedRuns map[string]uint32 `json:"loggedRuns,omitempty"`
	// HostsLost is true if the pod's /etc/hosts is a directory (volume.HostsLost).
	HostsLost bool `json:"hostsLost,omitempty"`
	// Unreadable contains a warning for each optional state file that is corrupt. podrun treats such a
	// file as missing.
	Unreadable problem.List `json:"-"`
}

// Sandbox returns the current sandbox, which is the newest one; nil if the pod has none.
func (o *Observed) Sandbox() *Sandbox {
	if len(o.Sandboxes) == 0 {
		return nil
	}
	return &o.Sandboxes[0]
}

// Container returns the newest container with the given name in the current sandbox; nil if there is
// none. It never returns a container of an older sandbox, because the new sandbox requires its init
// containers to run again (k/k#140309).
func (o *Observed) Container(name string) *Container {
	s := o.Sandbox()
	if s == nil {
		return nil
	}
	for i := range o.Containers {
		if c := &o.Containers[i]; c.Name == name && c.SandboxID == s.ID && !o.Restarted[c.ID] {
			return c
		}
	}
	return nil
}

// Newest returns the newest container with the given name in any sandbox; nil if there is none.
func (o *Observed) Newest(name string) *Container {
	for i := range o.Containers {
		if o.Containers[i].Name == name {
			return &o.Containers[i]
		}
	}
	return nil
}

// Latest returns the newest container with the given name in any sandbox. It returns nil if there is
// none, or if the container was created before the last restart of all containers.
func (o *Observed) Latest(name string) *Container {
	if c := o.Newest(name); c != nil && !o.Restarted[c.ID] {
		return c
	}
	return nil
}

// Previous returns the container with the same name that c replaced, or nil if there is none.
func (o *Observed) Previous(c *Container) *Container {
	for i := range o.Containers {
		if p := &o.Containers[i]; p.Name == c.Name && p.compare(c) < 0 {
			return p
		}
	}
	return nil
}

// Put adds c as the newest container, or replaces the container with the same ID.
func (o *Observed) Put(c Container) {
	for i := range o.Containers {
		if o.Containers[i].ID == c.ID {
			o.Containers[i] = c
			return
		}
	}
	o.Containers = slices.Insert(o.Containers, 0, c)
}

// SetHook records the state of a container's postStart hook.
func (o *Observed) SetHook(containerID string, s HookState) {
	if o.Hooks == nil {
		o.Hooks = map[string]HookState{}
	}
	o.Hooks[containerID] = s
}

// StartTime returns the pod's start time. This is the time at which podrun first accepted the pod. If
// that time is not recorded, StartTime returns the creation time of the oldest sandbox, or zero if
// there is none.
func StartTime(pod *corev1.Pod, o *Observed) time.Time {
	if t := pod.CreationTimestamp; !t.IsZero() {
		return t.Time
	}
	if n := len(o.Sandboxes); n > 0 {
		return o.Sandboxes[n-1].CreatedAt
	}
	return time.Time{}
}

// Order sorts sandboxes and containers, newest first. It compares attempts before creation times,
// because the attempts of a name always increase, whereas the host's clock may have been set back.
func (o *Observed) Order() {
	slices.SortStableFunc(o.Sandboxes, func(a, b Sandbox) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	slices.SortStableFunc(o.Containers, func(a, b Container) int { return -a.compare(&b) })
}

// compare orders containers of the same name from the oldest to the newest.
func (c *Container) compare(other *Container) int {
	return cmp.Or(cmp.Compare(c.Restarts, other.Restarts), c.CreatedAt.Compare(other.CreatedAt))
}

// Drop removes a container from the observation after podrun has removed it from the runtime.
func (o *Observed) Drop(id string) {
	o.Containers = slices.DeleteFunc(o.Containers, func(c Container) bool { return c.ID == id })
}

// Probed returns the recorded results of startup and readiness probes, by container ID.
func (o *Observed) Probed() (started, ready map[string]bool) {
	started, ready = map[string]bool{}, map[string]bool{}
	for id, p := range o.Probes {
		started[id], ready[id] = p.Started, p.Ready
	}
	return started, ready
}

package lifecycle

import (
	"maps"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// The kubelet's reasons why a container that it tried to start is not running
// (pkg/kubelet/kuberuntime/kuberuntime_container.go).
const (
	CreateContainerConfigError = "CreateContainerConfigError" // the container's CRI configuration cannot be created
	CreateContainerError       = "CreateContainerError"       // the runtime cannot create the container
	RunContainerError          = "RunContainerError"          // the runtime cannot start the container
	PostStartHookError         = "PostStartHookError"
)

// Waiting explains why a container is not started. The reasons are the kubelet's: those above,
// ErrImagePull, ImagePullBackOff, InvalidImageName, ErrImageNeverPull and CrashLoopBackOff.
type Waiting struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Failure explains why, and when, the last attempt to pull a container's image or to start the
// container failed.
type Failure struct {
	Waiting
	At time.Time `json:"at"`
}

// StartFailure explains why the last attempt to start a container failed.
type StartFailure struct {
	Failure
	// Newest is the ID of the newest container of that name at the time of the failure: the
	// container that could not be started or, if the attempt created none, the previous one. It may
	// be empty. Creation times would not identify containers, because the host's clock can be
	// changed.
	Newest string `json:"newest,omitempty"`
	// Transient is true if the failure may not be due to the definition, for example because the runtime did not
	// respond.
	Transient bool `json:"transient,omitempty"`
}

// startErrorShown is how long the status shows a start failure before it shows the resulting
// back-off. The kubelet reports the back-off at its next sync, 10 s later (backOffPeriod in
// pkg/kubelet).
const startErrorShown = 10 * time.Second

// WithStartFailure returns the kept status with the start failure of a container.
func (o *Observed) WithStartFailure(name string, f Failure, transient bool) Kept {
	f.Message = event.CutBytes(f.Message, maxKeptMessage)
	failure := StartFailure{Failure: f, Transient: transient}
	if c := o.Newest(name); c != nil {
		failure.Newest = c.ID
	}
	k := o.Kept
	if k.StartFailures = maps.Clone(k.StartFailures); k.StartFailures == nil {
		k.StartFailures = map[string]StartFailure{}
	}
	k.StartFailures[name] = failure
	return k
}

// CurrentStartFailures returns the start failures of containers that do not run, and that have not
// been recreated since the failure. It returns nil if there are none.
func (o *Observed) CurrentStartFailures() (out map[string]StartFailure) {
	for name, f := range o.Kept.StartFailures {
		if c := o.Newest(name); c != nil && (c.State == Running || c.ID != f.Newest) {
			continue
		}
		if out == nil {
			out = map[string]StartFailure{}
		}
		out[name] = f
	}
	return out
}

// WaitingReasons returns why containers wait to be started: their back-off or image pull has not finished, or
// their last attempt to start failed. If there are several reasons, it returns the most recent one.
// BackingOff may be nil; the result is a new map.
func (o *Observed) WaitingReasons(backingOff map[string]Waiting, now time.Time) map[string]Waiting {
	failures := map[string]Failure{}
	for name, f := range o.ImageFailures {
		// If the container was created, it has its image.
		if c := o.Newest(name); c == nil || c.CreatedAt.Before(f.At) {
			failures[name] = f
		}
	}
	fresh := map[string]bool{}
	for name, f := range o.CurrentStartFailures() {
		if f.At.After(failures[name].At) {
			failures[name] = f.Failure
			fresh[name] = now.Sub(f.At) < startErrorShown
		}
	}
	out := map[string]Waiting{}
	for name, f := range failures {
		out[name] = f.Waiting
	}
	for name, w := range backingOff {
		if !fresh[name] {
			out[name] = w
		}
	}
	return out
}

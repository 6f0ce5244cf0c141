package lifecycle

import (
	"maps"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// The kubelet's reasons for which a container that it tried to start is not running
// (pkg/kubelet/kuberuntime/kuberuntime_container.go).
const (
	CreateContainerConfigError = "CreateContainerConfigError" // its CRI configuration cannot be made
	CreateContainerError       = "CreateContainerError"       // the runtime cannot create it
	RunContainerError          = "RunContainerError"          // the runtime cannot start it
	PostStartHookError         = "PostStartHookError"
)

// Waiting is why a container is not started, with the kubelet's reasons: those above,
// ErrImagePull, ImagePullBackOff, InvalidImageName, ErrImageNeverPull, CrashLoopBackOff.
type Waiting struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Failure is why the last try to pull a container's image, or to start it, failed, and
// when.
type Failure struct {
	Waiting
	At time.Time `json:"at"`
}

// StartFailure is why the last try to start a container failed.
type StartFailure struct {
	Failure
	// Newest is the ID of the newest container of that name at the time: the one that was not
	// started, the one before if none was created, or empty. Times of creation do not
	// identify containers: the host's clock may be set.
	Newest string `json:"newest,omitempty"`
}

// startErrorShown is how long the failure of a start is shown during the back-off that it
// caused. The kubelet reports the back-off at its next sync, 10 s later (backOffPeriod in
// pkg/kubelet).
const startErrorShown = 10 * time.Second

// WithStartFailure is the kept status with the failure of a container's start.
func (o *Observed) WithStartFailure(name string, f Failure) Kept {
	f.Message = event.CutBytes(f.Message, maxKeptMessage)
	failure := StartFailure{Failure: f}
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

// CurrentStartFailures are the failures of starts after which the container was not
// created again, and does not run; nil if there are none.
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

// Waits returns why containers wait to be started: for the end of a back-off, for their
// images, or because their last start failed. The most recent of the failures applies.
// BackingOff may be nil; the result is a new map.
func (o *Observed) Waits(backingOff map[string]Waiting, now time.Time) map[string]Waiting {
	failures := map[string]Failure{}
	for name, f := range o.ImageFailures {
		if c := o.Newest(name); c == nil || c.CreatedAt.Before(f.At) { // a container that was created has its image
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

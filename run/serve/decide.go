package serve

import "time"

// Presence is what the manifest directories say of a pod.
type Presence string

// The presences.
const (
	// NoSource is that of a pod that no file asked for.
	NoSource Presence = "none"
	// Present is that of a pod that a file asks for.
	Present Presence = "present"
	// Gone is that of a pod whose file is gone, in a directory that can be read.
	Gone Presence = "gone"
	// Unreachable is that of a pod whose file may still be there: its directory
	// can't be read, or the file can't be.
	Unreachable Presence = "unreachable"
)

// Situation is what a step for a pod is decided by.
type Situation struct {
	Source Presence
	// Hash is that of what the source asks for; "" unless it is Present.
	Hash string
	// Restart says that the pod asks to be restarted when an object that it refers
	// to changes, and one did, but not the pod.
	Restart bool

	// Exists says that the pod is on this host: it has a checkpoint. The fields
	// below are not set otherwise.
	Exists bool
	// Applied is the hash of the source when it was last applied; "" for never.
	Applied string
	// Run says that `podrun run` made the pod.
	Run bool
	// Stopped says that a command stopped the pod until a command starts it.
	Stopped bool
	// Doomed says that a removal has begun.
	Doomed bool
	// Ended says that the pod has ended for good, or was found so.
	Ended bool
	// Broken says that its checkpoint can't be read.
	Broken bool
	// SecretsLost says that its Secrets were in memory only and are gone.
	SecretsLost bool
	// Evict says that the pod is to be evicted now.
	Evict bool
	// Evicted says that it was evicted, RetryEvicted when the transition period after
	// that is over, and Pressure that the node is under pressure: until neither holds,
	// the pod is not tried again.
	Evicted      bool
	RetryEvicted time.Time
	Pressure     bool

	// ShutDown says that the pod was stopped because the node shuts down, which it still
	// does.
	ShutDown bool

	// Owned says that another command works on the pod now.
	Owned bool
	// Failed is the hash that could not be applied last, and RetryApply when it is
	// tried again.
	Failed     string
	RetryApply time.Time
	// RetryAttend and RetryDelete are when supervising and removing the pod are tried
	// again after a failure. Each step has its own time: of two steps that both fail,
	// none cancels the other's delay. Zero is for no failure.
	RetryAttend, RetryDelete time.Time
	Now                      time.Time
}

// Verb is what a supervisor does about a pod.
type Verb string

// The verbs.
const (
	// Apply brings the pod to what its source asks for, and supervises it.
	Apply Verb = "apply"
	// Attend supervises the pod as it is.
	Attend Verb = "attend"
	// Delete removes the pod, and what is known of its source.
	Delete Verb = "delete"
	// Evict stops the pod for good, for the node's sake or for a limit that it exceeds.
	Evict Verb = "evict"
	// Wait does nothing until something changes, or until Step.Until.
	Wait Verb = "wait"
	// Forget ends the supervision of a pod that does not exist.
	Forget Verb = "forget"
)

// Step is what a supervisor does about a pod.
type Step struct {
	Do    Verb
	Force bool      // of Apply: the pod is restarted although it is the same
	Until time.Time // of Wait; zero for no limit
	Why   string    // of Wait, for the state that is shown
}

// The reasons of Wait by which the state of a pod is told, too.
const (
	whyEnded         = "has ended"
	whyStopped       = "was stopped"
	whyEvicted       = "was evicted"
	whyShutDown      = "the node shuts down"
	whyNotApplied    = "could not be applied"
	whyNotRemoved    = "could not be removed"
	whyNotSupervised = "could not be supervised"
	whyCorrupt       = "its checkpoint is corrupt"
)

// Decide chooses the step for a pod. It is pure: the state table of docs/serve.md.
func Decide(s Situation) Step {
	switch {
	case s.Owned:
		return Step{Do: Wait, Why: "another command works on the pod"}
	case !s.Exists && s.Source == Present && s.applyHeld():
		return Step{Do: Wait, Until: s.RetryApply, Why: whyNotApplied}
	case !s.Exists && s.Source == Present:
		return Step{Do: Apply}
	case !s.Exists && s.Source == Unreachable:
		return Step{Do: Wait, Why: "its source is unreachable"}
	case !s.Exists:
		return Step{Do: Forget}
	case s.Run:
		return Step{Do: Wait, Why: "podrun run made the pod"}
	case s.Doomed, s.Source == Gone:
		if s.Now.Before(s.RetryDelete) {
			return Step{Do: Wait, Until: s.RetryDelete, Why: whyNotRemoved}
		}
		return Step{Do: Delete}
	case s.Broken:
		return Step{Do: Wait, Why: whyCorrupt}
	case s.Stopped:
		return Step{Do: Wait, Why: whyStopped}
	case s.Evict && !s.Ended:
		return Step{Do: Evict}
	case s.ShutDown:
		return Step{Do: Wait, Why: whyShutDown}
	case s.changed() && !s.applyHeld():
		return Step{Do: Apply, Force: s.Restart && !s.Ended}
	case s.Ended && s.Evicted && s.asked():
		return s.afterEviction()
	case s.Ended:
		return Step{Do: Wait, Until: s.until(), Why: whyEnded}
	case s.Now.Before(s.RetryAttend):
		return Step{Do: Wait, Until: s.sooner(s.RetryAttend), Why: whyNotSupervised}
	}
	return Step{Do: Attend, Until: s.until()}
}

// asked tells whether a source asks for the pod, or may: nothing else tries an evicted
// pod again.
func (s Situation) asked() bool { return s.Source == Present || s.Source == Unreachable }

// afterEviction makes an evicted pod again when the node is no longer under pressure and
// the transition period is over.
func (s Situation) afterEviction() Step {
	switch {
	case s.Now.Before(s.RetryEvicted):
		return Step{Do: Wait, Until: s.sooner(s.RetryEvicted), Why: whyEvicted}
	case s.Pressure:
		return Step{Do: Wait, Until: s.until(), Why: whyEvicted}
	case s.applyHeld():
		return Step{Do: Wait, Until: s.RetryApply, Why: whyNotApplied}
	}
	return Step{Do: Apply, Force: true}
}

// changed tells whether the source asks for something else than what was applied, or has
// what was lost of that.
func (s Situation) changed() bool {
	return s.Source == Present && (s.Hash != s.Applied || s.SecretsLost)
}

// applyHeld tells whether what the source asks for is not tried again yet.
func (s Situation) applyHeld() bool { return s.Failed == s.Hash && s.Now.Before(s.RetryApply) }

// until is when a definition that could not be applied is tried again; zero for
// never.
func (s Situation) until() time.Time {
	if s.changed() && s.applyHeld() {
		return s.RetryApply
	}
	return time.Time{}
}

// sooner is the sooner of t and until.
func (s Situation) sooner(t time.Time) time.Time {
	if u := s.until(); !u.IsZero() && u.Before(t) {
		return u
	}
	return t
}

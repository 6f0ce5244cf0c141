package supervisor

import "time"

// Presence is the state of a pod in the manifest directories.
type Presence string

// The values of Presence.
const (
	// NoSource means that no file has defined the pod.
	NoSource Presence = "none"
	// Present means that a file defines the pod.
	Present Presence = "present"
	// Gone means that the pod's file was removed from a readable directory.
	Gone Presence = "gone"
	// Unreachable means that the pod's file may still exist: podrun cannot read the file or its
	// directory.
	Unreachable Presence = "unreachable"
)

// Controller is what decides whether a pod that has ended is replaced.
type Controller string

// The values of Controller.
const (
	// ControllerNone means that podrun decides.
	ControllerNone Controller = ""
	// ControllerJob means that the pod's Job decides: podrun applies the pod only once (source.Pod.Once).
	ControllerJob Controller = "job"
	// ControllerCluster means that an API server defines the pod: podrun never starts it again after it has ended
	// (source.Pod.Final).
	ControllerCluster Controller = "cluster"
)

// Checkpoint is the state of a pod's checkpoint.
type Checkpoint string

// The values of Checkpoint.
const (
	// CheckpointNone means that the pod is not on this host.
	CheckpointNone   Checkpoint = ""
	CheckpointIntact Checkpoint = "intact"
	// CheckpointWithoutSecrets means that the pod's Secrets were only in memory, and podrun has lost them.
	CheckpointWithoutSecrets Checkpoint = "without secrets"
	// CheckpointCorrupt means that podrun cannot read the checkpoint: only the source can then define the pod.
	CheckpointCorrupt Checkpoint = "corrupt"
)

// Origin is what last applied a pod.
type Origin string

// The values of Origin.
const (
	// OriginCommand means that a command applied the pod, or that its origin is unknown and it is not
	// OriginUnclaimed.
	OriginCommand Origin = ""
	// OriginSource means that the pod came from its source, and no command has applied it since. podrun
	// then deletes the pod when its source is removed.
	OriginSource Origin = "source"
	// OriginUnclaimed means that the pod's origin is unknown and either the pod equals its source's definition, or
	// its checkpoint is corrupt.
	OriginUnclaimed Origin = "unclaimed"
	// OriginRun means that `podrun run` created the pod.
	OriginRun Origin = "run"
)

// Halt is the reason for which podrun stopped a pod that may start again.
type Halt string

// The values of Halt.
const (
	HaltNone Halt = ""
	// HaltStopped means that a command has stopped the pod, and no command has started it since.
	HaltStopped Halt = "stopped"
	// HaltShutDown means that podrun stopped the pod for a shutdown of the node, and the shutdown is still in
	// progress.
	HaltShutDown Halt = "shutdown"
)

// Phase is the part of a pod's life that podrun knows before it observes the pod.
type Phase string

// The values of Phase.
const (
	// PhaseActive means that the pod has not ended, or that podrun does not know yet whether it has.
	PhaseActive Phase = ""
	// PhaseEvictionDue means that podrun must evict the pod now.
	PhaseEvictionDue Phase = "eviction due"
	// PhaseEnded means that the pod has terminated permanently. Either this process observed the termination, or the
	// status of a pod with a corrupt checkpoint records it.
	PhaseEnded Phase = "ended"
	// PhaseEvicted means that the pod has terminated because podrun evicted it.
	PhaseEvicted Phase = "evicted"
)

// Situation is the input of Decide for one pod.
type Situation struct {
	Source Presence
	// Hash is the hash of the source's definition; it is "" if the source is not Present.
	Hash       string
	Controller Controller
	// Restart is true if the pod has AnnotationRestart and is unchanged, but an object to which it
	// refers has changed.
	Restart bool
	// Applied is the hash of the source when a supervisor last applied it. It is "" if no
	// supervisor has applied it.
	Applied string
	// Rejected is true if podrun has rolled back the source's definition, which has not changed since.
	Rejected bool
	// Behind is true if other replicas of the workload must be updated first.
	Behind bool
	// Owned is true if another command is working on the pod.
	Owned bool

	// Checkpoint is CheckpointNone if the pod is not on this host. Decide then ignores the fields up to
	// Pressure.
	Checkpoint Checkpoint
	Origin     Origin
	Halt       Halt
	Phase      Phase
	// Doomed is true if a command has begun to remove the pod permanently.
	Doomed bool
	// RollingBack is true if the pod's definition is bad, and podrun must restore the last good one.
	RollingBack bool
	// Surplus is true if the pod is a replica of a workload that must have fewer pods.
	Surplus bool
	// RetryEvicted is the end of the transition period after the eviction of an evicted pod, and Pressure
	// means that the node is under pressure. podrun starts the pod again when the period is over and the node
	// is no longer under pressure.
	RetryEvicted time.Time
	Pressure     bool

	// Failed is the hash of the last definition that podrun could not apply. RetryApply is the
	// time of the next attempt.
	Failed     string
	RetryApply time.Time
	// RetryAttend, RetryDelete and RetryRollBack are the times at which podrun retries to supervise, to remove and to roll
	// back the pod after a failure. The steps have separate times, because otherwise, if both failed,
	// each would cancel the delay of the other. Zero means no failure.
	RetryAttend, RetryDelete, RetryRollBack time.Time
	Now                                     time.Time
}

// exists reports whether the pod is on this host.
func (s Situation) exists() bool { return s.Checkpoint != CheckpointNone }

// ended reports whether the pod has terminated permanently.
func (s Situation) ended() bool { return s.Phase == PhaseEnded || s.Phase == PhaseEvicted }

// Verb is an action of the supervisor on a pod.
type Verb string

// The verbs.
const (
	// Apply applies the source's definition to the pod, and then supervises the pod.
	Apply Verb = "apply"
	// RollBack restores the last good definition of the pod, and then supervises the pod.
	RollBack Verb = "rollback"
	// Attend supervises the pod without changing it.
	Attend Verb = "attend"
	// Delete removes the pod and the record of its source.
	Delete Verb = "delete"
	// Release removes the record of the source, and keeps the pod.
	Release Verb = "release"
	// Evict stops the pod permanently, because of node pressure or because it exceeds a
	// limit.
	Evict Verb = "evict"
	// Wait does nothing until the situation changes, or until Step.Until.
	Wait Verb = "wait"
	// Forget ends the supervision of a pod that does not exist.
	Forget Verb = "forget"
)

// Step is the next step of the supervisor for a pod.
type Step struct {
	Do    Verb
	Force bool      // for Apply: restart the pod even if it is unchanged
	Until time.Time // for Wait: the latest time of the next decision; zero for no limit
	// for Wait: the reason, which `podrun serve` shows as the pod's state
	Why string
}

// Reasons of Wait that are also shown as the state of a pod.
const (
	whyEnded         = "has ended"
	whyStopped       = "was stopped"
	whyEvicted       = "was evicted"
	whyShutDown      = "the node shuts down"
	whyNotApplied    = "could not be applied"
	whyNotRemoved    = "could not be removed"
	whyNotSupervised = "could not be supervised"
	whyCorrupt       = "its checkpoint is corrupt"
	whyRejected      = "its definition was rolled back"
	whyReplaced      = "was deleted: its Job replaces it"
)

// Decide returns the next step for a pod. It is pure and implements the state table of
// docs/serve.md.
func Decide(s Situation) Step {
	switch {
	case s.Owned:
		return Step{Do: Wait, Why: "another command is working on the pod"}
	case !s.exists() && s.Source == Present && s.Controller == ControllerJob && s.Applied != "":
		return Step{Do: Wait, Why: whyReplaced}
	case !s.exists() && s.Source == Present && s.Rejected:
		return Step{Do: Wait, Why: whyRejected}
	case !s.exists() && s.Source == Present && s.applyHeld():
		return Step{Do: Wait, Until: s.RetryApply, Why: whyNotApplied}
	case !s.exists() && s.Source == Present:
		return Step{Do: Apply}
	case !s.exists() && s.Source == Unreachable:
		return Step{Do: Wait, Why: "its source is unreachable"}
	case !s.exists():
		return Step{Do: Forget}
	case s.Origin == OriginRun:
		return Step{Do: Wait, Why: "podrun run created the pod"}
	case s.Source == Gone && s.Origin != OriginSource && !s.Doomed && !s.Surplus:
		return Step{Do: Release}
	case s.Doomed, s.Surplus, s.Source == Gone:
		if s.Now.Before(s.RetryDelete) {
			return Step{Do: Wait, Until: s.RetryDelete, Why: whyNotRemoved}
		}
		return Step{Do: Delete}
	case s.Checkpoint == CheckpointCorrupt:
		return s.withoutCheckpoint()
	case s.Halt == HaltStopped:
		return Step{Do: Wait, Why: whyStopped}
	case s.Phase == PhaseEvictionDue:
		return Step{Do: Evict}
	case s.Halt == HaltShutDown:
		return Step{Do: Wait, Why: whyShutDown}
	case s.Controller == ControllerCluster && s.ended():
		return Step{Do: Wait, Why: whyEnded}
	case s.changed() && !s.applyHeld() && !s.Behind:
		return Step{Do: Apply, Force: s.Restart && !s.ended()}
	case s.rollsBack() && !s.Now.Before(s.RetryRollBack):
		return Step{Do: RollBack}
	case s.Phase == PhaseEvicted && s.asked():
		return s.afterEviction()
	case s.ended():
		return Step{Do: Wait, Until: s.until(), Why: whyEnded}
	case s.Now.Before(s.RetryAttend):
		return Step{Do: Wait, Until: s.sooner(s.RetryAttend), Why: whyNotSupervised}
	}
	return Step{Do: Attend, Until: s.until()}
}

// replacesCorrupt reports whether podrun replaces a pod that has a corrupt checkpoint, using the
// source's definition. As long as the source has not changed since podrun applied it, podrun does
// not replace two kinds of pods: pods that a command has applied since then, because a replacement
// would delete their volumes, and pods that have terminated without being evicted, because a
// replacement would run again.
func (s Situation) replacesCorrupt() bool {
	if s.Source != Present || s.Halt != HaltNone || s.Controller == ControllerJob {
		return false
	}
	return s.Hash != s.Applied || (s.Origin == OriginSource || s.Origin == OriginUnclaimed) && s.Phase != PhaseEnded
}

// withoutCheckpoint returns the step for a pod whose checkpoint is corrupt.
func (s Situation) withoutCheckpoint() Step {
	switch {
	case !s.replacesCorrupt():
		return Step{Do: Wait, Why: whyCorrupt}
	case s.Phase == PhaseEvicted && s.Hash == s.Applied:
		return s.afterEviction()
	case s.applyHeld():
		return Step{Do: Wait, Until: s.RetryApply, Why: whyCorrupt}
	case s.Rejected && s.Now.Before(s.RetryRollBack):
		return Step{Do: Wait, Until: s.RetryRollBack, Why: whyCorrupt}
	case s.Rejected:
		return Step{Do: RollBack}
	}
	return Step{Do: Apply}
}

// rollsBack reports whether podrun must restore the last good definition: the pod's definition is bad, or it is the last good
// one, without the Secrets that podrun has lost.
func (s Situation) rollsBack() bool {
	return s.RollingBack || s.Rejected && s.Checkpoint == CheckpointWithoutSecrets
}

// asked reports whether a source defines the pod, or may define it. podrun starts an evicted pod again
// only if this is the case. Evicted pods of a Job or a cluster are replaced by the Job or the cluster's
// controllers.
func (s Situation) asked() bool {
	return s.Controller == ControllerNone && (s.Source == Present || s.Source == Unreachable)
}

// afterEviction returns the step for an evicted pod: podrun applies the pod again when the node is
// no longer under pressure and the transition period is over.
func (s Situation) afterEviction() Step {
	switch {
	case s.Now.Before(s.RetryEvicted):
		return Step{Do: Wait, Until: s.sooner(s.RetryEvicted), Why: whyEvicted}
	case s.Pressure:
		return Step{Do: Wait, Until: s.until(), Why: whyEvicted}
	case s.applyHeld():
		return Step{Do: Wait, Until: s.RetryApply, Why: whyNotApplied}
	case s.Rejected && s.Now.Before(s.RetryRollBack):
		return Step{Do: Wait, Until: s.RetryRollBack, Why: whyNotApplied}
	case s.Rejected:
		return Step{Do: RollBack}
	}
	// podrun always replaces a corrupt pod.
	return Step{Do: Apply, Force: s.Checkpoint != CheckpointCorrupt}
}

// changed reports whether podrun must apply the source's definition. It must if the definition
// differs from the applied one, contains Secrets that the pod has lost, or equals the definition of
// a pod whose origin is unknown. It must not if podrun has rolled back the definition.
func (s Situation) changed() bool {
	return s.Source == Present && !s.Rejected && (s.Hash != s.Applied || s.Checkpoint == CheckpointWithoutSecrets || s.Origin == OriginUnclaimed)
}

// applyHeld reports whether podrun must still wait before it applies the source's definition.
func (s Situation) applyHeld() bool { return s.Failed == s.Hash && s.Now.Before(s.RetryApply) }

// until returns the time at which podrun retries a definition that it could not apply or restore. It returns
// zero if no retry is pending.
func (s Situation) until() time.Time {
	if s.changed() && s.applyHeld() {
		return s.RetryApply
	}
	if s.rollsBack() {
		return s.RetryRollBack
	}
	return time.Time{}
}

// sooner returns the earlier one of t and s.until().
func (s Situation) sooner(t time.Time) time.Time {
	if u := s.until(); !u.IsZero() && u.Before(t) {
		return u
	}
	return t
}

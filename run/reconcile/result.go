package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// Outcome is the result of a command for a pod.
type Outcome string

// The outcomes of apply and delete.
const (
	OutcomeCreated Outcome = "created"
	// podrun started exited containers again
	OutcomeRestarted Outcome = "restarted"
	OutcomeReplaced  Outcome = "replaced"
	OutcomeUpdated   Outcome = "updated"
	OutcomeUnchanged Outcome = "unchanged"
	OutcomeFailed    Outcome = "failed"
	OutcomeDeleted   Outcome = "deleted"
	OutcomeStopped   Outcome = "stopped"
	OutcomeMet       Outcome = "condition met" // the pod has reached the goal
)

// Result is the outcome for one pod. Status is the pod's status at the end of the command.
type Result struct {
	ID      identity.Pod
	Outcome Outcome
	// details of the outcome: the changed fields or the restarted containers
	What   []string
	Status corev1.PodStatus
	// Containers describe how the containers exited, if the pod was run to completion or deleted.
	Containers []lifecycle.Ended
	Err        error
}

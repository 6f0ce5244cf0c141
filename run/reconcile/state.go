package reconcile

import (
	"github.com/podrun/podrun/container/probe"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// state is a worker's knowledge of its pod.
type state struct {
	*node.Node
	plan    *prepare.Plan
	lock    *store.PodLock
	obs     *lifecycle.Observed
	journal *store.Journal
	undo    undo
	// trouble is why an image that the pod waits for could not be pulled yet (images.trouble).
	trouble func() error
	// mine are the containers that this worker started, by ID.
	mine map[string]bool
	// failures are the errors of single containers: the others are started.
	failures []error
	goal     lifecycle.Goal
	prober   *probe.Prober // nil while no probes run
	logs     logStreams
	// saidBackOff are the containers whose back-off was reported, by ID.
	saidBackOff map[string]bool
	// supervision is that of a worker that supervises its pod; nil otherwise.
	supervision *Supervision
	groupSeen   bool // the pod's control group existed
	// removes is true if the command removes the pod when it ends, so hints must not refer to the
	// pod.
	removes bool
	// pending is the reason why the pod cannot be resized to its source's definition, if
	// knowsPending is set; otherwise the stored reason applies.
	pending      *lifecycle.ResizePending
	knowsPending bool
	// unrecorded are the pending restarts that could not be written; nil if they are on disk.
	unrecorded map[string]lifecycle.PendingRestart
}

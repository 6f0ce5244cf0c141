package run

import (
	"context"
	"crypto/rand"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// NewInvocation returns a random ID for a process: 16 hex digits.
func NewInvocation() string { return store.RandomHex(8) }

// RandomSuffix returns a random suffix for metadata.generateName, with five characters that cannot
// form a word (k8s.io/apimachinery/pkg/util/rand).
func RandomSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	raw := make([]byte, 5)
	rand.Read(raw) // never fails (crypto/rand, Go 1.24)
	for i := range raw {
		raw[i] = letters[int(raw[i])%len(letters)]
	}
	return string(raw)
}

// Types and outcomes of other packages, for callers of the engine.
type (
	// Node is the state that the pods of a process share.
	Node = node.Node
	// Ahead contains the facts about the host that podrun reads in the background.
	Ahead = discover.Ahead
	// Known is a pod of podrun on this host.
	Known = observe.Known
	// PrepareOptions are the options of Prepare.
	PrepareOptions = node.PrepareOptions
	// ApplyOptions are the options of Apply.
	ApplyOptions = reconcile.ApplyOptions
	// RunOptions are the options of Run.
	RunOptions = reconcile.RunOptions
	// Result is the outcome for one pod.
	Result = reconcile.Result
	// Outcome names the change that an operation made to a pod.
	Outcome = reconcile.Outcome
	// Log is a container's log file.
	Log = reconcile.Log
)

// ReadAhead begins to read the facts about the host that admission needs. It reads only facts that
// no other podrun process changes. For allowKubelet, see ApplyOptions.
func ReadAhead(ctx context.Context, client *cri.Client, s nodeconfig.Settings, allowKubelet bool) *Ahead {
	return discover.ReadAhead(ctx, client, s, !allowKubelet)
}

// UndoTimeout limits how long a command may take to undo its changes.
const UndoTimeout = lease.UndoTimeout

// These are the outcomes of operations.
const (
	OutcomeCreated   = reconcile.OutcomeCreated
	OutcomeRestarted = reconcile.OutcomeRestarted
	OutcomeReplaced  = reconcile.OutcomeReplaced
	OutcomeUpdated   = reconcile.OutcomeUpdated
	OutcomeUnchanged = reconcile.OutcomeUnchanged
	OutcomeFailed    = reconcile.OutcomeFailed
	OutcomeDeleted   = reconcile.OutcomeDeleted
	OutcomeStopped   = reconcile.OutcomeStopped
	OutcomeMet       = reconcile.OutcomeMet
)

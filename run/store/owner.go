package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Generation identifies one period of ownership of a pod. Generations can be compared only for
// equality. The counter alone would not be unique: it starts again after a delete, and the new pod can
// have the same UID. The token never repeats. The zero value means no generation.
type Generation struct {
	Counter uint64 `json:"counter"`
	Token   string `json:"token"` // 128 random bits in hex
}

// String returns the generation as sandboxes and containers record it: "7-0f3a…".
func (g Generation) String() string { return fmt.Sprintf("%d-%s", g.Counter, g.Token) }

// next returns the generation after g.
func (g Generation) next() Generation {
	return Generation{Counter: g.Counter + 1, Token: RandomHex(16)}
}

// Purpose is the kind of operation that an owner performs on its pod.
type Purpose string

// These are the purposes of owners.
const (
	PurposeRun    Purpose = "run"    // brings the pod, or the pod that replaces it, to a goal
	PurposeStop   Purpose = "stop"   // stops the pod, and keeps its data
	PurposeRemove Purpose = "remove" // removes the pod
)

// rank orders purposes. A command waits for a live owner whose purpose ranks higher than its own, and
// takes the pod over from any other owner, unless that runs a preStop hook (HookRuns). For example,
// `apply` waits for a running `delete`, while a second `delete` with a shorter grace period takes over
// from the first one.
func (p Purpose) rank() int {
	switch p {
	case PurposeRemove:
		return 2
	case PurposeStop:
		return 1
	}
	return 0
}

// ownerSchema is the schema version of the owner records that this version of podrun writes.
const ownerSchema = 1

// OwnerRecord identifies the owner of a pod, and contains the part of the pod's state that the next
// owner requires. It is stored in <root-dir>/owners, in one file per namespace and name. It is written
// only under the pod's lock. A pod that was removed or never had an owner has no record.
type OwnerRecord struct {
	Schema int `json:"schema"`
	Generation
	UID string `json:"uid"`
	// Incarnation is a random value. It is set when the pod is admitted as a new one, because all pods
	// created from one file have the same UID.
	Incarnation string  `json:"incarnation"`
	Purpose     Purpose `json:"purpose"`
	// Fresh is true if no container of the pod has been started yet. A command that fails to start
	// a fresh pod removes the pod; otherwise it keeps the pod.
	Fresh bool `json:"fresh,omitempty"`
	// Doomed is true if a command has begun to remove the pod. It remains set until the pod is
	// removed.
	Doomed bool `json:"doomed,omitempty"`
	// Recreate is true if the command that is removing the pod will recreate it from its
	// checkpoint. If the command fails to do so, the next owner starts the pod.
	Recreate bool `json:"again,omitempty"`
	// Deletion is the start of the removal. It is nil if no command is removing the pod, or if an older
	// version of podrun began to remove it.
	Deletion *Deletion `json:"deletion,omitempty"`
	// Ending contains the containers and sandboxes that podrun is stopping, by ID, with the ends of
	// their grace periods. They may exit at any time, even after the command was killed. The next
	// owner stops them before it makes any other decision.
	Ending map[string]time.Time `json:"ending,omitempty"`
	// Stops contains how far the stops of the containers in Ending have come. A container in Ending
	// without an entry was stopped by an older version of podrun: it has been asked to stop.
	Stops map[string]ContainerStop `json:"stops,omitempty"`
	// Unreleased are the IDs of sandboxes whose stop failed or was interrupted, so that leftovers of
	// network plugins may exist. A later CNI DEL does not remove these leftovers, so the record keeps
	// the IDs until a pod with this name, whatever its UID, is removed.
	Unreleased []string `json:"unreleased,omitempty"`
	// KilledAt is the time at which an owner found that the previous owner had been killed. It is nil if
	// that did not happen, or happened long ago. The runtime may still be executing the last call of the
	// killed process. The next owner may lose the pod before that call takes effect, so later owners
	// must also expect the effect.
	KilledAt *time.Time `json:"killedAt,omitempty"`
	// Claim is the name of the owner's claim file. The owner is live while a process holds the lock on
	// that file.
	Claim string `json:"claim"`
	// Holder is the name of the owner's process, for messages.
	Holder string `json:"holder"`
	// Attends is true if the owner works on the pod for as long as both exist, like a supervisor or a
	// command that waits for the pod. Other commands take over such a pod, because they cannot wait
	// for the owner to finish (Operates).
	Attends bool `json:"attends,omitempty"`
	// Origin describes the source of the pod's definition. It is nil if an older version of podrun
	// created the pod.
	Origin *Origin `json:"origin,omitempty"`
}

// clone returns a copy that shares no memory with the record. The record may be nil.
func (r *OwnerRecord) clone() *OwnerRecord {
	if r == nil {
		return nil
	}
	c := *r
	c.Ending = maps.Clone(r.Ending)
	c.Stops = cloneStops(r.Stops)
	c.Unreleased = slices.Clone(r.Unreleased)
	if r.Deletion != nil {
		c.Deletion = new(*r.Deletion)
	}
	if r.KilledAt != nil {
		c.KilledAt = new(*r.KilledAt)
	}
	if r.Origin != nil {
		c.Origin = new(*r.Origin)
		c.Origin.Settings = slices.Clone(r.Origin.Settings)
	}
	return &c
}

// lateCalls is how long after a kill the runtime may still complete a call of the killed process. A
// runtime cancels the call when the connection closes. For a runtime that does not, the limit is
// cri.BusyFor.
const lateCalls = 10 * time.Second

// noteKilled deletes the record of a kill that is older than lateCalls, or that is in the future
// because the clock was set back. If killed is true, it records that podrun found at the time now
// that the previous owner had been killed.
func (r *OwnerRecord) noteKilled(killed bool, now time.Time) {
	if at := r.KilledAt; at != nil && (now.Before(*at) || now.Sub(*at) > lateCalls) {
		r.KilledAt = nil
	}
	if killed {
		r.KilledAt = new(now.UTC())
	}
}

// Deletion describes the start of a pod's removal.
type Deletion struct {
	At time.Time `json:"at"`
	// GraceSeconds is the grace period, or the shortest one if several commands remove the pod.
	GraceSeconds int64 `json:"graceSeconds"`
}

// End returns the end of the grace period, which is the API's deletionTimestamp.
func (d Deletion) End() time.Time { return d.At.Add(time.Duration(d.GraceSeconds) * time.Second) }

// BeginRemoval records that a command is removing the pod. If another command is already removing
// the pod, the later command does not extend the grace period (BeforeDelete in
// k8s.io/apiserver/pkg/registry/rest/delete.go).
func (r *OwnerRecord) BeginRemoval(now time.Time, grace time.Duration, again bool) {
	r.Doomed = true
	r.Recreate = again
	d := Deletion{At: now.UTC(), GraceSeconds: int64(grace / time.Second)}
	if before := r.Deletion; before != nil {
		d = Deletion{At: before.At, GraceSeconds: min(before.GraceSeconds, d.GraceSeconds)}
	}
	r.Deletion = &d
}

// EndRemoval records that no command is removing the pod, because the removal ended or the pod is
// new.
func (r *OwnerRecord) EndRemoval() {
	r.Doomed = false
	r.Recreate = false
	r.Deletion = nil
}

// DeletionOf returns the start of the removal of the pod with the given UID, or nil if no command is
// removing it. The record may be nil.
func (r *OwnerRecord) DeletionOf(uid string) *Deletion {
	if r == nil || !r.Doomed || r.UID != uid {
		return nil
	}
	return r.Deletion
}

// Origin describes the source of the definition of a pod on this host. It belongs to the incarnation of
// the pod: podrun records it when the definition takes effect, and removes it with the owner record
// when the pod is deleted. A version of podrun that does not support this field drops the field when it
// writes the record, so the record never contains the origin of another definition.
type Origin struct {
	// Command is the command that last applied the pod: OriginApply, OriginRun or OriginServe. If
	// it is OriginServe, the pod came from the file in its source record (SourceRecord).
	Command string `json:"command"`
	// Settings are the node's settings with which podrun planned the pod (nodeconfig.Settings).
	Settings json.RawMessage `json:"settings,omitempty"`
	// RemovedAtEnd is true if the command removes the pod when it ends, like `podrun run` without --keep. If
	// the command was killed, the pod is a leftover. RemovedAtEnd is false if an older version of podrun,
	// which does not record it, created the pod.
	RemovedAtEnd bool `json:"removedAtEnd,omitempty"`
}

// The commands of origins.
const (
	OriginApply = "apply"
	// a supervisor never supervises such a pod
	OriginRun   = "run"
	OriginServe = "serve"
)

// Ends reports whether the owner stops, replaces or removes the pod.
func (r *OwnerRecord) Ends() bool { return r != nil && (r.Purpose.rank() > 0 || r.Doomed) }

// FromSource reports whether the pod came from a source of a supervisor. It returns false if this is
// unknown, because a version of podrun that does not support origins changed the pod.
func (r *OwnerRecord) FromSource() bool {
	return r != nil && r.Origin != nil && r.Origin.Command == OriginServe
}

// Operates reports whether the owner, if it is live, performs an operation that ends by itself.
// Another command can wait for such an operation. Stopping, replacing and removing a pod are such
// operations; supervising a pod is not.
func (r *OwnerRecord) Operates() bool { return r != nil && (!r.Attends || r.Ends()) }

// Removes reports whether a command has begun to remove the pod and will not recreate it.
func (r *OwnerRecord) Removes() bool { return r != nil && r.Doomed && !r.Recreate }

// Shown returns the name of the owner's process for messages. If the record is nil, it returns a
// general description.
func (r *OwnerRecord) Shown() string {
	if r == nil || r.Holder == "" {
		return "another podrun"
	}
	return ShownHolder(r.Holder)
}

// outranks reports whether a command with purpose p must wait for the owner.
func (r *OwnerRecord) outranks(p Purpose) bool { return r != nil && r.Purpose.rank() > p.rank() }

package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Generation identifies one ownership of a pod. Generations are compared only for
// equality: a pod's UID is deterministic, so a counter would repeat after a delete, but
// the token never does. The zero value means no generation.
type Generation struct {
	Counter uint64 `json:"counter"`
	Token   string `json:"token"` // 128 random bits in hex
}

// String is what sandboxes and containers carry as provenance: "7-0f3a…".
func (g Generation) String() string { return fmt.Sprintf("%d-%s", g.Counter, g.Token) }

// next makes the generation that follows.
func (g Generation) next() Generation {
	return Generation{Counter: g.Counter + 1, Token: RandomHex(16)}
}

// Purpose is what an owner does with its pod.
type Purpose string

// The purposes of owners.
const (
	PurposeRun    Purpose = "run"    // brings the pod, or one that replaces it, to a goal
	PurposeStop   Purpose = "stop"   // stops the pod and keeps its data
	PurposeRemove Purpose = "remove" // removes the pod
)

// rank orders purposes: a command waits for a live owner whose purpose ranks
// higher than its own, and takes over from every other one. So `apply` waits for
// a running `delete`, while a second `delete` with a shorter grace period takes
// over from the first.
func (p Purpose) rank() int {
	switch p {
	case PurposeRemove:
		return 2
	case PurposeStop:
		return 1
	}
	return 0
}

// ownerSchema is the version of the owner records that this podrun writes.
const ownerSchema = 1

// OwnerRecord contains the owner of a pod, and the part of the pod's state that a later
// owner must know. It is stored in <root-dir>/owners, one file for each namespace/name,
// and is only written under the pod's lock. It is absent for a pod that was never owned
// or that was removed.
type OwnerRecord struct {
	Schema int `json:"schema"`
	Generation
	UID string `json:"uid"`
	// Incarnation is random, made when the pod was admitted as a new one: a UID
	// is the same for each pod that is made of one file.
	Incarnation string  `json:"incarnation"`
	Purpose     Purpose `json:"purpose"`
	// Fresh is true if no container of the pod has been started yet, so a command that cannot start
	// the pod removes it. If it is not set, the pod is kept.
	Fresh bool `json:"fresh,omitempty"`
	// Doomed is true if a command has begun to remove the pod. It remains set until the pod is
	// removed.
	Doomed bool `json:"doomed,omitempty"`
	// Again is true if the command that has begun to remove the pod creates it again from its
	// checkpoint: where that command does not, the next owner starts the pod.
	Again bool `json:"again,omitempty"`
	// Deletion is when the removal began; nil if none has begun, or an older podrun began it.
	Deletion *Deletion `json:"deletion,omitempty"`
	// Ending are the containers and sandboxes that were asked to stop, by ID, with the
	// end of their grace periods: they may end at any time, also where the command
	// that asked them was killed. The next owner stops them before it decides anything.
	Ending map[string]time.Time `json:"ending,omitempty"`
	// Unreleased are sandboxes, by ID, of which a stop failed or was cut short: what
	// network plugins leave of them then, no later DEL removes. They are kept until a
	// pod of that name is removed, whichever its UID.
	Unreleased []string `json:"unreleased,omitempty"`
	// Claim is the name of the owner's claim file. The owner is live while a
	// process has that file locked.
	Claim string `json:"claim"`
	// Holder is the owner's process, for messages.
	Holder string `json:"holder"`
	// Attends is true if the owner keeps the pod as it is defined for as long as the pod, or
	// the owner, exists: a supervisor does, and a command that waits for the pod. Every other
	// command takes such a pod over; none waits for its owner to end (Operates).
	Attends bool `json:"attends,omitempty"`
	// Origin is where the pod comes from; nil for a pod of an older podrun.
	Origin *Origin `json:"origin,omitempty"`
}

// Deletion is the begin of a pod's removal.
type Deletion struct {
	At time.Time `json:"at"`
	// GraceSeconds is the grace period: the shortest of those of several commands.
	GraceSeconds int64 `json:"graceSeconds"`
}

// End is the end of the grace period, which is the deletionTimestamp of the API.
func (d Deletion) End() time.Time { return d.At.Add(time.Duration(d.GraceSeconds) * time.Second) }

// BeginRemoval records that a command removes the pod. A later command does not extend the
// grace period of an earlier one (BeforeDelete in
// k8s.io/apiserver/pkg/registry/rest/delete.go).
func (r *OwnerRecord) BeginRemoval(now time.Time, grace time.Duration, again bool) {
	r.Doomed, r.Again = true, again
	d := Deletion{At: now.UTC(), GraceSeconds: int64(grace / time.Second)}
	if before := r.Deletion; before != nil {
		d = Deletion{At: before.At, GraceSeconds: min(before.GraceSeconds, d.GraceSeconds)}
	}
	r.Deletion = &d
}

// EndRemoval records that the pod is not being removed, or that it is a new one.
func (r *OwnerRecord) EndRemoval() { r.Doomed, r.Again, r.Deletion = false, false, nil }

// DeletionOf returns the begin of the removal of the pod with that UID; nil if it is not being
// removed. The record may be nil.
func (r *OwnerRecord) DeletionOf(uid string) *Deletion {
	if r == nil || !r.Doomed || r.UID != uid {
		return nil
	}
	return r.Deletion
}

// Origin is where the definition of a pod on this host comes from. It belongs to the
// incarnation of the pod: it is recorded when the definition takes effect, and ends with
// the owner record when the pod is deleted. A podrun that does not know a field of the
// record drops it, so that an origin never outlasts the definition that it is of.
type Origin struct {
	// Command applied the pod last: OriginApply, OriginRun or OriginServe. A pod that a
	// supervisor applied came from the file of its source record (SourceRecord).
	Command string `json:"command"`
	// Settings are the node's settings that the pod was planned with
	// (nodeconfig.Settings).
	Settings json.RawMessage `json:"settings,omitempty"`
}

// The commands of origins.
const (
	OriginApply = "apply"
	OriginRun   = "run" // such a pod is never supervised
	OriginServe = "serve"
)

// Ends reports whether the owner stops, replaces or removes the pod.
func (r *OwnerRecord) Ends() bool { return r != nil && (r.Purpose.rank() > 0 || r.Doomed) }

// FromSource reports whether the pod came from a source of a supervisor. It is false if
// that is not known: a podrun that does not know origins changed the pod.
func (r *OwnerRecord) FromSource() bool {
	return r != nil && r.Origin != nil && r.Origin.Command == OriginServe
}

// Operates reports whether the owner does something that ends by itself, for which another
// command may wait, if the owner is live. A supervisor does when it stops, replaces or removes
// the pod.
func (r *OwnerRecord) Operates() bool { return r != nil && (!r.Attends || r.Ends()) }

// Removes reports whether a command has begun to remove the pod for good.
func (r *OwnerRecord) Removes() bool { return r != nil && r.Doomed && !r.Again }

// Shown returns the owner's process, for messages. A nil record is "another
// podrun".
func (r *OwnerRecord) Shown() string {
	if r == nil || r.Holder == "" {
		return "another podrun"
	}
	return ShownHolder(r.Holder)
}

// outranks reports whether a command with that purpose must wait for the owner.
func (r *OwnerRecord) outranks(p Purpose) bool { return r != nil && r.Purpose.rank() > p.rank() }

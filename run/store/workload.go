package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
)

// WorkloadRecord records the number of pods that a workload must have (docs/design/replicas.md).
// Commands write it before they start or remove a pod.
type WorkloadRecord struct {
	ID       identity.Pod `json:"-"` // namespace and name
	Kind     string       `json:"kind"`
	Replicas int32        `json:"replicas"`
	// Written is the number in the manifest; nil if the manifest omits it.
	Written *int32 `json:"written,omitempty"`
	// Origin is the source.File of podrun serve that defines the workload; "" if a command applied it.
	Origin string `json:"origin,omitempty"`
	// Deleted is true if a command has begun to delete the workload.
	Deleted bool `json:"deleted,omitempty"`
	// Change is a random string that identifies the last change of the record.
	Change string `json:"change"`
	// Template is the checkpoint of one of the pods. It has no Secrets if SecretsInMemory is set.
	Template        string `json:"template,omitempty"`
	SecretsInMemory bool   `json:"secretsInMemory,omitempty"`
}

// SetTemplate stores the checkpoint of a pod as the definition of the workload's pods.
func (r *WorkloadRecord) SetTemplate(c manifest.Checkpoint) error {
	if r.SecretsInMemory = c.InMemory && len(c.Secrets) > 0; r.SecretsInMemory {
		c = c.WithoutSecrets()
	}
	data, err := c.Marshal()
	r.Template = string(data)
	return err
}

// Checkpoint returns the stored definition, with defaults, or nil if the record has none.
func (r *WorkloadRecord) Checkpoint() (*manifest.Checkpoint, error) {
	if r.Template == "" {
		return nil, nil
	}
	c, err := manifest.Unmarshal([]byte(r.Template))
	if err != nil {
		return nil, err
	}
	c.Default()
	c.InMemory = r.SecretsInMemory
	c.SecretsLost = r.SecretsInMemory
	return &c, nil
}

var workloadRecords = statefile.DeclareKeyed(statefile.Keyed[WorkloadRecord]{
	Dir: identity.Layout.Workloads,
	Kind: &statefile.Kind[WorkloadRecord]{
		What: "the record of a workload's replicas", Files: "workloads/<namespace>_<name>", Scope: statefile.Workload,
		On:    statefile.Answers{Absent: "no such workload", Corrupt: statefile.Refuse, Unreadable: statefile.Refuse, Newer: statefile.Refuse},
		Limit: 2 * identity.MaxCheckpoint, Mode: 0o600, DirMode: 0o750,
	},
})

// ReadWorkload reads the record of a workload. It returns nil if there is none, and an error if podrun
// cannot use the record.
func ReadWorkload(layout identity.Layout, id identity.Pod) (*WorkloadRecord, error) {
	r, _, err := workloadRecords.Get(context.Background(), layout, id)
	if err != nil || r == nil {
		return nil, err
	}
	r.ID = identity.Pod{Namespace: id.Namespace, Name: id.Name}
	return r, nil
}

// ReadWorkloads reads the records of a namespace, sorted by namespace and name. The namespace ""
// means all namespaces. The result unreadable joins the errors of records that podrun cannot use.
func ReadWorkloads(layout identity.Layout, namespace string) (out []WorkloadRecord, unreadable, err error) {
	records, faults, err := workloadRecords.List(context.Background(), layout, func(id identity.Pod) bool { return namespace == "" || id.Namespace == namespace })
	for _, r := range records {
		r.Value.ID = r.ID
		out = append(out, r.Value)
	}
	for _, f := range faults {
		unreadable = errors.Join(unreadable, f.Fault)
	}
	return out, unreadable, err
}

// HasWorkloads reports whether any workload has a record.
func HasWorkloads(layout identity.Layout) bool {
	entries, err := os.ReadDir(layout.Workloads())
	return err == nil && len(entries) > 0
}

// WriteWorkload writes and syncs a record. Only root can read the file, because it may contain
// Secrets. The caller holds the lock of workloads.
func WriteWorkload(layout identity.Layout, r WorkloadRecord) error {
	return workloadRecords.Put(layout, r.ID, r)
}

// RemoveWorkload removes a record, if there is one, and temporary files of killed processes. The caller
// holds the lock of workloads.
func RemoveWorkload(layout identity.Layout, id identity.Pod) error {
	faultpoint.At("workload/remove")
	removeTemporary(layout.Workloads(), "."+filepath.Base(layout.Workload(id))+".")
	return workloadRecords.Delete(layout, id)
}

// StoredReplicas returns the pods of a workload that have a checkpoint, in the order of their indexes,
// with their checkpoints. It skips pods whose checkpoints cannot be read.
func StoredReplicas(layout identity.Layout, kind string, workload identity.Pod) ([]Replica, error) {
	owned, err := ownedReplicas(layout, workload)
	if err != nil {
		return nil, err
	}
	var out []Replica
	for _, r := range owned {
		c, err := ViewCheckpoint(layout, r.ID.UID)
		if err != nil || c == nil || !c.Definition.Honours() || c.Definition.Kind != kind || c.Definition.WorkloadName(r.ID.Name) != workload.Name {
			continue
		}
		r.Checkpoint = *c
		r.Ending = r.owner.Removes()
		r.Unfinished = r.owner.Purpose == PurposeRun && r.owner.killed(layout)
		out = append(out, r.Replica)
	}
	slices.SortFunc(out, func(a, b Replica) int { return a.Index - b.Index })
	return out, nil
}

// InterruptedRemovals returns the IDs and indexes of the pods with the names of a workload's replicas that a killed
// process was removing, and that no longer have a checkpoint. StoredReplicas omits them.
func InterruptedRemovals(layout identity.Layout, workload identity.Pod) (out []Replica, err error) {
	owned, err := ownedReplicas(layout, workload)
	for _, r := range owned {
		if r.owner.Removes() && !r.owner.Live(layout) && !HasCheckpoint(layout, r.ID.UID) {
			out = append(out, r.Replica)
		}
	}
	return out, err
}

// ownedReplica is a pod with the name of a workload's replica, and its owner record. Of Replica, only the ID and the
// index are set.
type ownedReplica struct {
	Replica
	owner *OwnerRecord
}

// ownedReplicas returns the pods with the names of a workload's replicas that have an owner record. It skips records
// that cannot be read.
func ownedReplicas(layout identity.Layout, workload identity.Pod) (out []ownedReplica, err error) {
	ids, err := ownerRecords.IDs(layout)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if id.Namespace != workload.Namespace {
			continue
		}
		index, ok := manifest.ReplicaIndex(workload.Name, id.Name)
		if !ok {
			continue
		}
		owner, err := ReadOwner(layout, id)
		if err != nil || owner == nil || !identity.SafeUID(owner.UID) {
			continue
		}
		id.UID = owner.UID
		out = append(out, ownedReplica{Replica{ID: id, Index: index}, owner})
	}
	return out, nil
}

// Replica is a pod of a workload.
type Replica struct {
	ID         identity.Pod
	Index      int
	Checkpoint manifest.Checkpoint
	Ending     bool // true if a command has begun to remove the pod
	// Unfinished is true if the process that was starting the pod, or supervised it, was killed.
	Unfinished bool
}

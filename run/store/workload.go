package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
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
	c.InMemory, c.SecretsLost = r.SecretsInMemory, r.SecretsInMemory
	return &c, nil
}

// ReadWorkload reads the record of a workload. It returns nil if there is none, and an error if the
// record cannot be read.
func ReadWorkload(layout identity.Layout, id identity.Pod) (*WorkloadRecord, error) {
	path := layout.Workload(id)
	r, err := readRecord[WorkloadRecord](path, 2*identity.MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the replicas of %s: %w", id, InFile(path, err))
	}
	r.ID = identity.Pod{Namespace: id.Namespace, Name: id.Name}
	return r, nil
}

// ReadWorkloads reads the records of a namespace, sorted by namespace and name. The namespace ""
// means all namespaces. The result unreadable joins the errors of records that ReadWorkloads skips.
func ReadWorkloads(layout identity.Layout, namespace string) (out []WorkloadRecord, unreadable, err error) {
	entries, err := os.ReadDir(layout.Workloads())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("list the replicas of workloads: %w", err)
	}
	for _, e := range entries {
		id, ok := NamedPod(e.Name())
		if !ok || namespace != "" && id.Namespace != namespace {
			continue
		}
		r, err := ReadWorkload(layout, id)
		if unreadable = errors.Join(unreadable, err); r != nil {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b WorkloadRecord) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return out, unreadable, nil
}

// HasWorkloads reports whether any workload has a record.
func HasWorkloads(layout identity.Layout) bool {
	entries, err := os.ReadDir(layout.Workloads())
	return err == nil && len(entries) > 0
}

// WriteWorkload writes and syncs a record. Only root can read the file, because it may contain
// Secrets. The caller holds the lock of workloads.
func WriteWorkload(layout identity.Layout, r WorkloadRecord) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = hostfile.MakeDirsDurable(layout.Workloads(), 0o750)
	}
	if err == nil {
		err = WriteState(layout.Workload(r.ID), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the replicas of %s: %w", r.ID, err)
	}
	return nil
}

// RemoveWorkload removes a record, if there is one, and temporary files of killed processes. The caller
// holds the lock of workloads.
func RemoveWorkload(layout identity.Layout, id identity.Pod) error {
	faultpoint.At("workload/remove")
	removeTemporary(layout.Workloads(), "."+filepath.Base(layout.Workload(id))+".")
	if err := os.Remove(layout.Workload(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the replicas of %s: %w", id, err)
	}
	return nil
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
		r.Checkpoint, r.Ending, r.Unfinished = *c, r.owner.Removes(), r.owner.Purpose == PurposeRun && r.owner.killed(layout)
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
	entries, err := os.ReadDir(layout.Owners())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the pods of %s: %w", layout.Owners(), err)
	}
	for _, e := range entries {
		id, ok := NamedPod(e.Name())
		if !ok || id.Namespace != workload.Namespace {
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

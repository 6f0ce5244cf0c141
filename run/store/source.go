package store

import (
	"context"
	"fmt"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// SourceRecord names the file in a supervisor's manifest directories that defines a pod. It belongs to
// the pod's name, not to one incarnation. podrun keeps it when a command changes or deletes the pod, so
// that a supervisor does not undo that change by applying the file again. So podrun must not delete a
// pod because of the record alone: only an incarnation with OriginServe came from the file. podrun
// removes the record after the file was removed.
type SourceRecord struct {
	Path string `json:"path"`
	// Hash is the hash of the pod, and of the objects to which it refers, in the file that a
	// supervisor last applied. It is "" if no supervisor has applied the file. A supervisor applies
	// a file only if the hash differs, so that it does not undo the changes of commands.
	Hash string `json:"hash"`
	// Documents has separate hashes of the pod ("Pod") and of each of these objects ("ConfigMap shop/web"). It is nil
	// if an older version of podrun wrote the record. The hashes show whether the pod itself has changed in the file.
	// If it has not, the pod keeps the definition that a command gave it.
	Documents map[string]string `json:"documents,omitempty"`
}

var sourceRecords = statefile.DeclareKeyed(statefile.Keyed[SourceRecord]{
	Dir: func(l identity.Layout) string { return l.Serve().Sources() },
	Kind: &statefile.Kind[SourceRecord]{
		What: "the record of a pod's manifest file", Files: "serve/sources/<namespace>_<name>", Scope: statefile.OfPod,
		On: statefile.Answers{
			Absent:     "no file of serve defines the pod",
			Corrupt:    statefile.Ignore,
			Unreadable: statefile.Refuse,
			Newer:      statefile.Refuse,
		},
		Mode: 0o600, DirMode: 0o750,
	},
})

// ReadSource reads a pod's source record. It returns nil if there is none or if it is corrupt:
// the supervisor then applies the file again.
func ReadSource(layout identity.Layout, id identity.Pod) (*SourceRecord, error) {
	r, _, err := sourceRecords.Get(context.Background(), layout, id)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", id, err)
	}
	return r, nil
}

// WriteSource writes a pod's source record and syncs it. The record must be durable, because without it
// the pod would remain after its file was removed.
func WriteSource(layout identity.Layout, id identity.Pod, r SourceRecord) error {
	return sourceRecords.Put(layout, id, r)
}

// RemoveSource removes a pod's source record, if it has one.
func RemoveSource(layout identity.Layout, id identity.Pod) error {
	return sourceRecords.Delete(layout, id)
}

// NamedPods lists the pods that have an owner record or a source record, by namespace and name. It
// does not set their UIDs.
func NamedPods(layout identity.Layout) ([]identity.Pod, error) {
	var out []identity.Pod
	seen := map[identity.Pod]bool{}
	for _, list := range []func(identity.Layout) ([]identity.Pod, error){ownerRecords.IDs, sourceRecords.IDs} {
		ids, err := list(layout)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out, nil
}

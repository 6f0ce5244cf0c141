package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/podrun/podrun/internal/identity"
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

// ReadSource reads a pod's source record. It returns nil if there is none or if it is corrupt:
// the supervisor then applies the file again.
func ReadSource(layout identity.Layout, id identity.Pod) (*SourceRecord, error) {
	data, err := ReadState(layout.Source(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: read its source record: %w", id, err)
	}
	var r SourceRecord
	if json.Unmarshal(data, &r) != nil {
		return nil, nil
	}
	return &r, nil
}

// WriteSource writes a pod's source record and syncs it. The record must be durable, because without it
// the pod would remain after its file was removed.
func WriteSource(layout identity.Layout, id identity.Pod, r SourceRecord) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(layout.Sources(), 0o750)
	}
	if err == nil {
		err = WriteState(layout.Source(id), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("pod %s: write its source record: %w", id, err)
	}
	return nil
}

// RemoveSource removes a pod's source record, if it has one.
func RemoveSource(layout identity.Layout, id identity.Pod) error {
	if err := os.Remove(layout.Source(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pod %s: remove its source record: %w", id, err)
	}
	return nil
}

// NamedPods lists the pods that have an owner record or a source record, by namespace and name. It
// does not set their UIDs.
func NamedPods(layout identity.Layout) ([]identity.Pod, error) {
	var out []identity.Pod
	seen := map[identity.Pod]bool{}
	for _, dir := range []string{layout.Owners(), layout.Sources()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the pods of %s: %w", dir, err)
		}
		for _, e := range entries {
			if id, ok := NamedPod(e.Name()); ok && !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out, nil
}

// NamedPod parses the name of an owner record, source record, lock or claim into the pod's namespace
// and name. It returns false for any other name.
func NamedPod(file string) (identity.Pod, bool) {
	id, ok := lockedPod(file)
	if !ok || id.Namespace == "" || id.Name == "" || id.Namespace[0] == '.' {
		return id, false
	}
	// The name of a claim ends with _ and random characters.
	for i := range id.Name {
		if id.Name[i] == '_' {
			id.Name = id.Name[:i]
			break
		}
	}
	return id, id.Name != ""
}

package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/lifecycle"
)

// UpdateState is the state of the last update of a pod (docs/design/rollback.md).
type UpdateState string

// The states. UpdateNone means that podrun does not watch the update.
const (
	UpdateNone        UpdateState = ""
	UpdateProgressing UpdateState = "Progressing"
	UpdateGood        UpdateState = "Good"
	// UpdateRollingBack means that the definition is bad, and that podrun must restore the last good one.
	UpdateRollingBack UpdateState = "RollingBack"
	// UpdateRolledBack means that podrun has restored the last good definition.
	UpdateRolledBack UpdateState = "RolledBack"
	// UpdateExceeded means that the definition is bad, and that podrun has no good one.
	UpdateExceeded UpdateState = "Exceeded"
)

// UpdateRecord is the record of the last update of a pod. It belongs to the pod's name. The owner of the pod writes it, under
// the pod's lock, before the definition takes effect.
type UpdateRecord struct {
	State UpdateState `json:"state,omitempty"`
	// Definition is the hash of the definition to which State applies (manifest.Checkpoint.Hash). If the pod has another
	// definition, State does not apply.
	Definition string `json:"definition,omitempty"`
	// Source is the hash of the source's definition that a supervisor applied; "" if the definition came from a command.
	Source   string             `json:"source,omitempty"`
	Progress lifecycle.Progress `json:"progress,omitzero"`
	// Rejected is the definition of the source that podrun has rolled back; nil if there is none.
	Rejected *Rejected `json:"rejected,omitempty"`
	// Reason and Message are why the definition is bad, or was, if podrun has rolled it back.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at,omitzero"` // of the last change of State
	// Images are the IDs of the images of the last good definition.
	Images []string `json:"images,omitempty"`
}

// Rejected is a definition of a source that podrun does not apply again.
type Rejected struct {
	Source string `json:"source"` // UpdateRecord.Source
	// Workload is the workload whose replicas have the definition, such as "Deployment shop/web"; "" for a pod.
	Workload string    `json:"workload,omitempty"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	At       time.Time `json:"at"`
}

var updateRecords = statefile.DeclareKeyed(statefile.Keyed[UpdateRecord]{
	Dir: identity.Layout.Updates,
	Kind: &statefile.Kind[UpdateRecord]{
		What: "the record of a pod's update", Files: "updates/<namespace>_<name>", Scope: statefile.OfPod,
		On:   statefile.Answers{Absent: "podrun watches no update", Corrupt: statefile.Ignore, Unreadable: statefile.Refuse, Newer: statefile.Partial},
		Mode: 0o600, DirMode: 0o750,
	},
})

// ReadUpdate reads the record of a pod's update. It returns nil if there is none, or if it is corrupt.
func ReadUpdate(layout identity.Layout, id identity.Pod) (*UpdateRecord, error) {
	r, _, err := updateRecords.Get(context.Background(), layout, id)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", id, err)
	}
	return r, nil
}

// WriteUpdate writes and syncs the record of a pod's update. The pod's lock must be held.
func WriteUpdate(layout identity.Layout, id identity.Pod, r UpdateRecord) error {
	return updateRecords.Put(layout, id, r)
}

// RemoveUpdate removes the record of a pod's update. The pod's lock must be held.
func RemoveUpdate(layout identity.Layout, id identity.Pod) error {
	if err := updateRecords.Delete(layout, id); err != nil {
		return err
	}
	removeTemporary(layout.Updates(), "."+filepath.Base(layout.Update(id))+".")
	return nil
}

// Update is the record of the update of a pod.
type Update struct {
	ID identity.Pod // namespace and name
	UpdateRecord
}

// ReadUpdates reads all records. It omits those that podrun cannot use, because Scan reports them.
func ReadUpdates(layout identity.Layout) (out []Update, err error) {
	records, faults, err := updateRecords.List(context.Background(), layout, nil)
	for _, r := range records {
		out = append(out, Update{r.ID, r.Value})
	}
	for _, f := range faults {
		out = append(out, Update{f.ID, f.Partial})
	}
	return out, err
}

// LastGoodImages returns the IDs of the images of all last good definitions.
func LastGoodImages(layout identity.Layout) (out []string, err error) {
	updates, err := ReadUpdates(layout)
	for _, u := range updates {
		out = append(out, u.Images...)
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

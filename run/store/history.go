package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
)

// maxRevisions is the number of definitions in a pod's history, including the current one.
const maxRevisions = 5

// Revision is a definition in the history of a pod.
type Revision struct {
	Number int64
	// Made contains the pod and the objects to which it refers. Of the objects, an earlier revision
	// contains only those to which the next revision no longer refers, with their last content. The
	// current revision contains all objects.
	Made manifest.Checkpoint
	// Superseded is the time at which the next definition replaced this one; it is zero for the
	// current one.
	Superseded time.Time
}

// history is the content of a history file: the earlier definitions of a pod, oldest first.
type history struct {
	// UID is the UID of the pod that had the last of these definitions. podrun ignores a history
	// that belongs neither to the current pod nor to its predecessor: such a history remains if a
	// version of podrun that does not keep histories removed the pod.
	UID       string            `json:"uid"`
	Revisions []historyRevision `json:"revisions"`
	// Good is the last good definition; nil if podrun knows none. A version of podrun that does not know it drops it.
	Good *goodRevision `json:"lastGood,omitempty"`
}

type historyRevision struct {
	Number     int64     `json:"revision"`
	UID        string    `json:"uid"`
	Superseded time.Time `json:"superseded"`
	Objects    string    `json:"objects"` // as in a checkpoint
}

// KeepRevision adds was, the current definition of a pod, to the pod's history. The caller must call it
// before next replaces that definition, so that the history is complete even if podrun is killed in between.
// It changes nothing if was and next are the same revision, or if a newer version of podrun wrote the
// history. If podrun keeps the Secrets of either definition in memory only, the history contains no Secrets.
// If the history would exceed the maximum size of a checkpoint, KeepRevision drops its oldest definitions.
// The pod's lock must be held.
func KeepRevision(layout identity.Layout, id identity.Pod, was, next manifest.Checkpoint, nextUID string, now time.Time) error {
	if manifest.SameRevision(was.Pod, next.Pod) {
		return nil
	}
	h, err := readHistory(layout, id)
	switch {
	case IsNewer(err):
		return nil
	case err != nil && !IsCorrupt(err):
		return err
	case err != nil || !h.describes(id.UID):
		h = history{} // a corrupt history is of no use
	}
	objects, err := was.Without(next).Marshal()
	if err != nil {
		return fmt.Errorf("write the history of pod %s: %w", id, err)
	}
	number := h.next()
	h.drop(was)
	h.UID = nextUID
	h.Revisions = append(h.Revisions, historyRevision{Number: number, UID: id.UID, Superseded: now.UTC(), Objects: string(objects)})
	if was.InMemory || next.InMemory {
		h.dropSecrets()
	}
	return h.write(layout, id)
}

// ForgetHistorySecrets removes the Secrets from the history of a pod. It is called when podrun begins
// to keep the pod's Secrets in memory only. The pod's lock must be held.
func ForgetHistorySecrets(layout identity.Layout, id identity.Pod) error {
	h, err := readHistory(layout, id)
	if err != nil || !h.dropSecrets() {
		return err
	}
	return h.write(layout, id)
}

// dropSecrets removes all Secrets, and reports whether the history contained any.
func (h *history) dropSecrets() (dropped bool) {
	for i := range h.Revisions {
		r := &h.Revisions[i]
		c, err := manifest.Unmarshal([]byte(r.Objects))
		if err == nil && len(c.Secrets) == 0 {
			continue
		}
		c.Secrets, dropped = nil, true
		objects, err := c.Marshal()
		// skip a revision that cannot be read
		if err != nil {
			r.Objects = ""
			continue
		}
		r.Objects = string(objects)
	}
	h.Revisions = slices.DeleteFunc(h.Revisions, func(r historyRevision) bool { return r.Objects == "" })
	return h.Good.dropSecrets() || dropped
}

// Revisions returns the history of a pod, oldest first. The last element is the current definition,
// which is in the checkpoint c. The error matches IsNewer if a newer version of podrun wrote the
// history.
func Revisions(layout identity.Layout, id identity.Pod, c manifest.Checkpoint) ([]Revision, error) {
	h, err := readHistory(layout, id)
	if err != nil {
		return nil, err
	}
	if !h.describes(id.UID) {
		h = history{}
	}
	current := Revision{Number: h.next(), Made: c}
	h.drop(c)
	var out []Revision
	for _, r := range h.Revisions {
		made, err := manifest.Unmarshal([]byte(r.Objects))
		if err != nil {
			continue // drop has removed those that cannot be read
		}
		made.Default()
		out = append(out, Revision{Number: r.Number, Made: made, Superseded: r.Superseded})
	}
	out = append(out, current)
	return out[max(0, len(out)-maxRevisions):], nil
}

// describes reports whether the history belongs to the pod with the given UID.
func (h history) describes(uid string) bool {
	return h.UID == uid || len(h.Revisions) > 0 && h.Revisions[len(h.Revisions)-1].UID == uid
}

// next returns the number of the current revision.
func (h history) next() int64 {
	if len(h.Revisions) == 0 {
		return 1
	}
	return h.Revisions[len(h.Revisions)-1].Number + 1
}

// drop removes the revisions that equal c, because a definition that is applied again gets a new
// number, as in kubectl. It also removes those that cannot be read.
func (h *history) drop(c manifest.Checkpoint) {
	h.Revisions = slices.DeleteFunc(h.Revisions, func(r historyRevision) bool {
		made, err := manifest.Unmarshal([]byte(r.Objects))
		return err != nil || manifest.SameRevision(made.Pod, c.Pod)
	})
}

// write stores the history of a pod. It drops the oldest revisions if the file would be too large.
func (h history) write(layout identity.Layout, id identity.Pod) error {
	h, err := h.fit(identity.MaxCheckpoint)
	if err != nil {
		return fmt.Errorf("write the history of pod %s: %w", id, err)
	}
	return histories.Put(layout, id, h)
}

// fit returns the newest maxRevisions revisions, or as many of them as fit in limit bytes when they are
// encoded. The last good definition has its own limit.
func (h history) fit(limit int) (history, error) {
	for drop := max(0, len(h.Revisions)-maxRevisions); ; drop++ {
		kept := history{UID: h.UID, Revisions: h.Revisions[drop:]}
		data, err := json.Marshal(kept)
		if err != nil || len(data) <= limit || drop == len(h.Revisions) {
			kept.Good = h.Good
			return kept, err
		}
	}
}

var histories = statefile.DeclareKeyed(statefile.Keyed[history]{
	Dir: identity.Layout.Histories,
	Kind: &statefile.Kind[history]{
		What: "the history of a pod", Files: "history/<namespace>_<name>", Scope: statefile.OfPod,
		On: statefile.Answers{
			Absent:     "no earlier definitions",
			Corrupt:    historyStartsAgain,
			Unreadable: statefile.Refuse,
			Newer:      historyUnchanged,
		},
		// The revisions, and the last good definition with the escaped quotes of its encoding. The version takes less than 1 KiB.
		Limit: 3*identity.MaxCheckpoint + 1<<10, Mode: 0o600, DirMode: 0o750,
	},
})

// The answers of histories.
const (
	historyStartsAgain statefile.Action = "`podrun rollout` fails; the next definition begins a new history"
	historyUnchanged   statefile.Action = "`podrun rollout` fails; podrun does not record definitions"
)

// readHistory reads a pod's history. If there is none, it returns an empty history.
func readHistory(layout identity.Layout, id identity.Pod) (history, error) {
	found := histories.Look(context.Background(), layout, id)
	if found.Fault != nil {
		return history{}, fmt.Errorf("pod %s: %w", id, found.Fault)
	}
	return found.Value, nil
}

// removeHistory removes the history of a pod that was removed. The pod's lock must be held.
func removeHistory(layout identity.Layout, id identity.Pod) error {
	if err := histories.Delete(layout, id); err != nil {
		return err
	}
	removeTemporary(layout.Histories(), "."+filepath.Base(layout.History(id))+".")
	return errors.Join(dropGoodSecrets(layout, id, ""), RemoveUpdate(layout, id))
}

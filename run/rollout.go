package run

import (
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/change"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// Revision is a definition in the history of a pod.
type Revision = store.Revision

// History returns the definitions that a pod had, oldest first. The last one is the current
// definition.
func History(n *node.Node, id identity.Pod) ([]Revision, error) {
	c, err := store.ReadCheckpoint(n.Layout(), id.UID)
	if c == nil || err != nil {
		return nil, err
	}
	return store.Revisions(n.Layout(), id, *c)
}

// Undo returns the Define that restores the definition with the given number in a pod's history; the number 0 means
// the previous one. It also restores the last content of the objects to which the present definition does not refer.
// The other replicas of a workload return to the revision of the first one, because a replica that was added later
// has fewer revisions.
func Undo(number int64) Define {
	return func(c Current) (Redefinition, error) {
		if c.First == nil {
			return restored(c, number)
		}
		next, err := restored(*c.First, number)
		if err != nil || next.Manifest == nil {
			return next, err
		}
		before, err := generate.Manifest(c.First.Pod)
		if err != nil {
			return next, err
		}
		patch, err := change.Edited(before, next.Manifest)
		if err != nil {
			return next, err
		}
		next.Manifest, err = change.PatchPod(c.Pod, change.Strategic, patch)
		return next, err
	}
}

// restored returns an earlier definition of a pod, or the zero value if it is the present one.
func restored(c Current, number int64) (Redefinition, error) {
	revisions, err := c.History()
	if err != nil {
		return Redefinition{}, err
	}
	to, err := FindRevision(revisions, number)
	if err != nil || to.Number == revisions[len(revisions)-1].Number {
		return Redefinition{}, err
	}
	next, err := Redefined(manifest.Editable(to.Made.Pod), "rolled back")
	next.Referred = &manifest.Objects{}
	for _, r := range slices.Backward(revisions) {
		next.Referred.Add(r.Made.Objects())
	}
	return next, err
}

// FindRevision returns the revision with the given number; the number 0 means the previous
// revision.
func FindRevision(revisions []Revision, number int64) (Revision, error) {
	if number == 0 && len(revisions) > 1 {
		return revisions[len(revisions)-2], nil
	}
	for _, r := range revisions {
		if r.Number == number {
			return r, nil
		}
	}
	if number == 0 {
		return Revision{}, &problem.Error{Kind: problem.Failed, Err: errors.New("no rollout history found"),
			Hint: "podrun has applied only one definition of the pod"}
	}
	return Revision{}, &problem.Error{Kind: problem.Failed,
		Err:  fmt.Errorf("unable to find specified revision %d in history", number),
		Hint: "run 'podrun rollout history POD' to list the revisions"}
}

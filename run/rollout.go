package run

import (
	"errors"
	"fmt"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
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

// RollbackTarget returns the revision with the given number; the number 0 means the previous revision.
// It also returns the objects to which the revisions refer, newest content first: a rollback restores
// the last content of an object to which the current definition does not refer. RollbackTarget returns
// nil if the revision is the current one.
func RollbackTarget(n *node.Node, id identity.Pod, number int64) (*Revision, *manifest.Objects, error) {
	revisions, err := History(n, id)
	if err != nil {
		return nil, nil, err
	}
	to, err := FindRevision(revisions, number)
	if err != nil {
		return nil, nil, err
	}
	if to.Number == revisions[len(revisions)-1].Number {
		return nil, nil, nil
	}
	referred := &manifest.Objects{}
	for i := len(revisions) - 1; i >= 0; i-- {
		referred.Add(revisions[i].Made.Objects())
	}
	return &to, referred, nil
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
		return Revision{}, &problem.Error{Kind: problem.Failed, Err: errors.New("no rollout history found"), Hint: "podrun has applied only one definition of the pod"}
	}
	return Revision{}, &problem.Error{Kind: problem.Failed, Err: fmt.Errorf("unable to find specified revision %d in history", number), Hint: "run 'podrun rollout history POD' to list the revisions"}
}

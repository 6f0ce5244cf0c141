package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// deletableClaims returns the directories of a pod's claims. It returns an error of kind Refused if
// one of them is used by a pod that is not in deleting, or if the pod's claims are unknown. Pods of
// other root directories are detected later, by their mounts (volume.DeleteClaims).
func deletableClaims(n *node.Node, id identity.Pod, deleting map[string]bool) ([]string, error) {
	refuse := func(err error, hint string) ([]string, error) {
		return nil, &problem.Error{Kind: problem.Refused, Object: "pod " + id.String(), Err: err, Hint: hint}
	}
	mine, err := store.ProvisionedClaims(n.Layout(), id.UID)
	if err != nil {
		return refuse(errors.New("cannot determine its claims: its checkpoint cannot be read"), "omit --delete-volumes")
	}
	if len(mine) == 0 {
		return nil, nil
	}
	used, err := store.ClaimsOfOthers(n.Layout(), id, deleting)
	if err != nil {
		return nil, err
	}
	paths := slices.Sorted(maps.Keys(mine))
	for _, path := range paths {
		if other, ok := used[path]; ok {
			return refuse(fmt.Errorf("claim %s is used by pod %s", mine[path].Name, other), "delete pod "+other.String()+" first, or omit --delete-volumes")
		}
	}
	return paths, nil
}

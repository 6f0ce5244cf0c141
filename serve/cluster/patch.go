package cluster

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patchOf returns the strategic merge patch that changes one object of an API type to another of the same
// type.
func patchOf[T any](from, to T) ([]byte, error) {
	is, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	will, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(is, will, from)
}

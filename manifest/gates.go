package manifest

import (
	"maps"
	"slices"

	"github.com/podrun/podrun/problem"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// SetGates sets Kubernetes' feature gates for decoding, defaulting and
// validation, as featureGates of a KubeletConfiguration or --feature-gates say.
// They are of the whole process: call it once, before the first Load. A gate
// that is unknown or can't be changed is a warning.
func SetGates(gates map[string]bool) problem.List {
	var out problem.List
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{name: gates[name]}); err != nil {
			out = append(out, problem.Problem{Field: "featureGates." + name, Reason: "FieldValueInvalid", Message: err.Error(), Warning: true})
		}
	}
	return out
}

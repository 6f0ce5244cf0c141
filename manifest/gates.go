package manifest

import (
	"maps"
	"slices"

	"github.com/podrun/podrun/internal/problem"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// SetGates sets Kubernetes' feature gates for decoding, defaulting and validation, according
// to the featureGates of a KubeletConfiguration or --feature-gates. They apply to the whole
// process: call it once, before the first Load. It returns a warning for a gate that is
// unknown or cannot be changed.
func SetGates(gates map[string]bool) problem.List {
	var out problem.List
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		p := problem.Problem{Field: "featureGates." + name, Reason: "FieldValueInvalid", Warning: true}
		// Look up the gate first: once the registry has been passed an unknown gate, it refuses all
		// other gates as well.
		switch gate, ok := known[featuregate.Feature(name)]; {
		case !ok:
			p.Message = "unknown feature gate, ignored"
		case gate.LockToDefault && gate.Default != gates[name]:
			p.Message = "can no longer be changed, ignored"
		case utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) != gates[name]: // if the gate already has the value, setting it would only cause a log message
			if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{name: gates[name]}); err != nil {
				p.Message = err.Error()
			}
		}
		if p.Message != "" {
			out = append(out, p)
		}
	}
	return out
}

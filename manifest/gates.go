package manifest

import (
	"maps"
	"slices"

	"github.com/podrun/podrun/internal/problem"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// SetGates sets Kubernetes' feature gates for decoding, defaulting and validation. The values
// come from the featureGates of a KubeletConfiguration or from --feature-gates. The gates apply
// to the whole process, so SetGates must be called once, before the first Load. If a gate is
// unknown or cannot be changed, it returns a warning.
func SetGates(gates map[string]bool) problem.List {
	if len(gates) == 0 {
		return nil // the list of all gates takes 128 KB
	}
	var out problem.List
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		p := problem.Problem{Field: "featureGates." + name, Reason: "FieldValueInvalid", Warning: true}
		// Look up the gate first: if the registry is asked to set an unknown gate, it refuses all
		// other gates as well.
		switch gate, ok := known[featuregate.Feature(name)]; {
		case !ok:
			p.Message = "unknown feature gate, ignored"
		case gate.LockToDefault && gate.Default != gates[name]:
			p.Message = "can no longer be changed, ignored"
		// If the gate already has the value, setting it would only cause a log message.
		case utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) != gates[name]:
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

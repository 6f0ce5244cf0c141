package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podrun/podrun/internal/problem"
)

// stopSignals maps a runtime to its first version that supports a container's stop signal in
// CRI (KEP-4960; containerd pull 11774, CRI-O pull 9086). No runtime advertises the feature.
// Older versions accept the request, but send the signal of the image.
var stopSignals = map[string]*version.Version{
	"containerd": version.MustParseGeneric("2.3.0"),
	"cri-o":      version.MustParseGeneric("1.34.0"),
}

// checkStopSignals warns about stop signals if the runtime is known to be too old for them.
func checkStopSignals(q question) problem.List {
	if !q.runtimeOlder(stopSignals) {
		return nil
	}
	var out problem.List
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
			out = append(out, problem.Problem{Field: field + ".lifecycle.stopSignal", Reason: "Ignored", Warning: true,
				Message: fmt.Sprintf("%s ignores stopSignal and stops containers with their image's signal", runtimeName(q)),
				Hint:    "requires containerd 2.3 or CRI-O 1.34"})
		}
	})
	return out
}

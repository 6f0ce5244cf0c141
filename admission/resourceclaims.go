package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// checkClaims refuses dynamic resources. Their drivers register with a kubelet, and a scheduler
// allocates claims; podrun has neither. podrun must not start a container without the device
// that it claims.
func checkClaims(q question) problem.List {
	refuse := func(field string) problem.Problem {
		return problem.Problem{
			Field: field, Reason: "UnsupportedResourceClaim",
			Message: "dynamic resources are not supported: podrun does not allocate claims or prepare devices",
			Hint:    "remove the claims; use a hostPath or block volume for a device file of the host",
		}
	}
	var out problem.List
	for i := range q.pod.Spec.ResourceClaims {
		out = append(out, refuse(fmt.Sprintf("spec.resourceClaims[%d]", i)))
	}
	eachContainer(q.pod, func(field string, c *corev1.Container) {
		for i := range c.Resources.Claims {
			out = append(out, refuse(fmt.Sprintf("%s.resources.claims[%d]", field, i)))
		}
	})
	return out
}

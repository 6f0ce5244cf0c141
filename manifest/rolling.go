package manifest

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// defaultMaxUnavailable is the API's default for a Deployment's maxUnavailable.
var defaultMaxUnavailable = intstr.FromString("25%")

// MaxUnavailable returns how many of the workload's n pods may be replaced at the same time when the
// template changes: at least 1. For a Deployment it is strategy.rollingUpdate.maxUnavailable, or n for
// the strategy Recreate. podrun starts no additional pod, so maxSurge has no effect, and a
// maxUnavailable that is 0 or rounded down to 0 counts as 1. For a StatefulSet it is 1: the API ignores
// its maxUnavailable while the feature gate MaxUnavailableStatefulSet is off.
func (d *Definition) MaxUnavailable(n int) int {
	if d == nil || d.Kind != "Deployment" {
		return 1
	}
	var o struct {
		Spec struct {
			Strategy appsv1.DeploymentStrategy `json:"strategy"`
		} `json:"spec"`
	}
	if json.Unmarshal(d.Workload, &o) != nil {
		return 1
	}
	if o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return max(n, 1)
	}
	limit := &defaultMaxUnavailable
	if r := o.Spec.Strategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		limit = r.MaxUnavailable
	}
	count, err := intstr.GetScaledValueFromIntOrPercent(limit, n, false)
	if err != nil {
		return 1
	}
	return max(count, 1)
}

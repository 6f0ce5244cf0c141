package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// Allocatable returns the host's capacity minus reservations and hard eviction thresholds, as
// in a node's status. It also returns a problem for each setting that is not a valid quantity.
func Allocatable(f host.Facts, s nodeconfig.Settings) (corev1.ResourceList, problem.List) {
	out := f.Capacity.DeepCopy()
	var problems problem.List
	take := func(setting string, name corev1.ResourceName, value string) {
		total, ok := f.Capacity[name]
		if !ok {
			return
		}
		reserved, err := parseReserved(value, total)
		if err != nil {
			problems = append(problems, invalidSetting(setting, value, err))
			return
		}
		left := out[name]
		left.Sub(reserved)
		if left.Sign() < 0 {
			left = *apiresource.NewQuantity(0, left.Format)
		}
		out[name] = left
	}
	for _, name := range slices.Sorted(maps.Keys(s.SystemReserved)) {
		take("systemReserved."+name, corev1.ResourceName(name), s.SystemReserved[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.KubeReserved)) {
		take("kubeReserved."+name, corev1.ResourceName(name), s.KubeReserved[name])
	}
	for _, signal := range slices.Sorted(maps.Keys(s.EvictionHard)) {
		if name, ok := evictionSignals[signal]; ok && !nodeconfig.NoThreshold(s.EvictionHard[signal]) {
			take("evictionHard."+signal, name, s.EvictionHard[signal])
		}
	}
	return out, problems
}

// parseReserved parses a quantity, or a percentage of total.
func parseReserved(value string, total apiresource.Quantity) (apiresource.Quantity, error) {
	if percent, ok := strings.CutSuffix(value, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || p < 0 || p > 100 {
			return apiresource.Quantity{}, fmt.Errorf("not a percentage")
		}
		return *apiresource.NewQuantity(int64(float64(total.Value())*p/100), total.Format), nil
	}
	return resource.ParseQuantity(value)
}

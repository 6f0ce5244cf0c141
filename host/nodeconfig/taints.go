package nodeconfig

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ParseTaints parses taints, separated by commas. Each has the kubelet's form key=value:effect
// or key:effect.
func ParseTaints(text string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for _, one := range strings.Split(text, ",") {
		if one == "" {
			continue
		}
		rest, effect, ok := strings.Cut(one, ":")
		key, value, _ := strings.Cut(rest, "=")
		t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		effects := []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
		if !ok || len(validation.IsQualifiedName(key)) > 0 || !slices.Contains(effects, t.Effect) {
			return nil, fmt.Errorf("%q is not key=value:effect with the effect NoExecute, NoSchedule or PreferNoSchedule", one)
		}
		if value != "" && len(validation.IsValidLabelValue(value)) > 0 {
			return nil, fmt.Errorf("%q has a value that is not a valid label value", one)
		}
		out = append(out, t)
	}
	return out, nil
}

package admission

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestIgnored covers fields whose feature gate is off by default. podrun must warn about them
// if the gate is on. test/fields tests the other warnings.
func TestIgnored(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		SchedulingGroup: &corev1.PodSchedulingGroup{},
		HostNetwork:     true,
		// A sidecar in the host network needs no port mapping.
		InitContainers: []corev1.Container{{Name: "side", Ports: []corev1.ContainerPort{{HostPort: 80}}}},
	}}
	var fields []string
	for _, p := range checkIgnored(question{pod: pod}) {
		if !p.Warning {
			t.Errorf("%s refuses", p.String())
		}
		fields = append(fields, p.Field)
	}
	if want := []string{"spec.schedulingGroup"}; !slices.Equal(fields, want) {
		t.Errorf("warnings of %q, want %q", fields, want)
	}
}

package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// The hint must have both amounts: the available one, and the one that the setting requires.
func TestPressureHint(t *testing.T) {
	s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
	low("nodefs")(s)
	low("pid")(s)
	s.facts.PIDs.Used = 950
	found := Check(Pod{Pod: s.pod}, s.facts, s.settings, Options{})
	const want = "the node is low on disk space of /var/lib/podrun: nodefs.available is 10239Mi, below the evictionHard threshold of 10Gi, " +
		"the node is low on process ids: pid.available is 50, below the evictionHard threshold of 100: free resources, or lower evictionHard"
	if len(found) != 1 || found[0].Hint != want {
		t.Errorf("got %+v, want the hint %q", found, want)
	}
}

// After a supervisor has detected pressure, the node stays under pressure for the transition
// period. A soft threshold applies without its grace period, as in the kubelet.
func TestPressureOfTheSupervisor(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"none":   {func(*scene) {}, ""},
		"disk":   {func(s *scene) { s.facts.Pressure = []corev1.NodeConditionType{corev1.NodeDiskPressure} }, "The node had condition: [DiskPressure]."},
		"memory": {func(s *scene) { s.facts.Pressure = []corev1.NodeConditionType{corev1.NodeMemoryPressure} }, "The node had condition: [MemoryPressure]."},
		"both, one of them seen now, too": {func(s *scene) {
			low("pid")(s)
			s.facts.PIDs.Used = 950
			s.facts.Pressure = []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodePIDPressure}
		}, "The node had condition: [PIDPressure MemoryPressure]."},
		"a soft threshold": {func(s *scene) {
			s.settings.EvictionSoft = map[string]string{"pid.available": "100"}
			s.facts.PIDs = host.PIDs{Max: 1000, Used: 950}
		}, "The node had condition: [PIDPressure]."},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
			s.pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{} // BestEffort
			tc.change(s)
			found := Check(Pod{Pod: s.pod}, s.facts, s.settings, Options{})
			if tc.want == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Message != tc.want || found[0].Reason != reasonEvicted {
				t.Errorf("%+v, want %q", found, tc.want)
			}
		})
	}
}

package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

func TestStopSignals(t *testing.T) {
	signal := corev1.SIGUSR1
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b", Lifecycle: &corev1.Lifecycle{StopSignal: &signal}}}}}
	for _, test := range []struct {
		name, version string
		warned        bool
	}{
		{"containerd", "1.6.20~ds1", true},
		{"containerd", "2.2.0", true},
		{"containerd", "v2.3.0", false},
		{"cri-o", "1.33.1", true},
		{"cri-o", "1.34.0", false},
		{"other", "0.1", false},
	} {
		got := checkStopSignals(question{pod: pod, facts: host.Facts{Runtime: host.Runtime{Name: test.name, Version: test.version}}})
		if (len(got) == 1) != test.warned || test.warned && (!got[0].Warning || got[0].Field != "spec.containers[1].lifecycle.stopSignal") {
			t.Errorf("%s %s: %v, want a warning %v", test.name, test.version, got, test.warned)
		}
	}
}

package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

func TestImageVolumes(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "a"},
		{Name: "b", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x"}}}}}}
	for _, test := range []struct {
		name, version string
		refused       bool
	}{
		{"containerd", "1.6.20~ds1", true},
		{"containerd", "1.7.27", true},
		{"containerd", "v2.0.5", true},
		{"containerd", "v2.1.0", false},
		{"containerd", "2.2.0", false},
		{"cri-o", "1.30.9", true},
		{"cri-o", "1.33.0", false},
		{"other", "0.1", false},
		{"containerd", "unknown", false},
	} {
		got := checkImageVolumes(question{pod: pod, facts: host.Facts{Runtime: host.Runtime{Name: test.name, Version: test.version}}})
		if (len(got) == 1) != test.refused || test.refused && got[0].Field != "spec.volumes[1].image" {
			t.Errorf("%s %s: %v, want refused %v", test.name, test.version, got, test.refused)
		}
	}
}

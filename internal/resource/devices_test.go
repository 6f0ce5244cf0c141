package resource

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAllocateDevices(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name string, gpus, nics string) corev1.Container {
		limits := corev1.ResourceList{"cpu": resource.MustParse("1")}
		for name, n := range map[corev1.ResourceName]string{"example.com/gpu": gpus, "example.com/nic": nics} {
			if n != "" {
				limits[name] = resource.MustParse(n)
			}
		}
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: limits}}
	}
	sidecar := func(c corev1.Container) corev1.Container {
		c.RestartPolicy = &always
		return c
	}
	free := map[corev1.ResourceName][]string{"example.com/gpu": {"g0", "g1", "g2"}, "example.com/nic": {"n0"}}
	for _, tc := range []struct {
		name      string
		init, app []corev1.Container
		want      string
	}{
		{"none", nil, []corev1.Container{container("a", "", "")}, "map[]"},
		{"in order", nil, []corev1.Container{container("a", "1", "1"), container("b", "2", "")}, "map[a:[g0 n0] b:[g1 g2]]"},
		{"zero", nil, []corev1.Container{container("a", "0", "")}, "map[]"},
		{"init containers leave theirs", []corev1.Container{container("i", "2", ""), container("j", "3", "")}, []corev1.Container{container("a", "1", ""), container("b", "2", "")},
			"map[a:[g0] b:[g1 g2] i:[g0 g1] j:[g0 g1 g2]]"},
		{"a later init container needs fewer", []corev1.Container{container("i", "3", ""), container("j", "1", "")}, []corev1.Container{container("a", "3", "")},
			"map[a:[g0 g1 g2] i:[g0 g1 g2] j:[g0]]"},
		{"sidecars keep theirs", []corev1.Container{sidecar(container("s", "1", "")), container("i", "1", "")}, []corev1.Container{container("a", "2", "")},
			"map[a:[g1 g2] i:[g1] s:[g0]]"},
		{"too many", nil, []corev1.Container{container("a", "2", ""), container("b", "2", "")},
			"requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"},
		{"too many for what is left by init", []corev1.Container{container("i", "2", "")}, []corev1.Container{container("a", "4", "")},
			"requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := AllocateDevices(&corev1.Pod{Spec: corev1.PodSpec{InitContainers: tc.init, Containers: tc.app}}, free)
			text := fmt.Sprint(got)
			if err != nil {
				text = err.Error()
			}
			if text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}
	if len(free["example.com/gpu"]) != 3 {
		t.Error("the caller's map of free devices was changed")
	}
}

package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
)

func TestMinMemory(t *testing.T) {
	limited := func(name, limit string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{limited("a", "12Mi")},
		Containers:     []corev1.Container{{Name: "none"}, limited("b", "4Mi"), limited("unlimited", "0")},
	}}
	for _, c := range []struct {
		name    string
		least   map[string]int64
		handler string
		want    []string
	}{
		{"unknown", nil, "", nil},
		{"the default", map[string]int64{"": 12 << 20}, "", []string{"spec.containers[1].resources.limits.memory"}},
		{"more", map[string]int64{"": 13 << 20}, "", []string{"spec.initContainers[0].resources.limits.memory", "spec.containers[1].resources.limits.memory"}},
		{"another handler's", map[string]int64{"": 12 << 20}, "crun", nil},
		{"the handler's", map[string]int64{"crun": 12 << 20}, "crun", []string{"spec.containers[1].resources.limits.memory"}},
		{"less", map[string]int64{"": 500 << 10}, "", nil},
	} {
		got := checkMinMemory(question{pod: pod, handler: c.handler, facts: host.Facts{Runtime: host.Runtime{Name: "cri-o", MinMemory: c.least}}})
		if len(got) != len(c.want) {
			t.Fatalf("%s: %v, want %q", c.name, got, c.want)
		}
		for i, p := range got {
			if p.Field != c.want[i] || p.Warning || p.Hint == "" {
				t.Errorf("%s: %+v, want %s", c.name, p, c.want[i])
			}
		}
	}
}

func TestLoopbackPorts(t *testing.T) {
	ports := func(ips ...string) []corev1.Container {
		var c corev1.Container
		for _, ip := range ips {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80, HostPort: 8080, HostIP: ip})
		}
		return []corev1.Container{{}, c}
	}
	for _, c := range []struct {
		name    string
		runtime string
		pod     corev1.PodSpec
		want    int
	}{
		{"CRI-O", "cri-o", corev1.PodSpec{Containers: ports("127.0.0.1", "::1", "", "192.0.2.1")}, 2},
		{"containerd", "containerd", corev1.PodSpec{Containers: ports("127.0.0.1")}, 0},
		{"hostNetwork", "cri-o", corev1.PodSpec{HostNetwork: true, Containers: ports("127.0.0.1")}, 0},
		{"no host port", "cri-o", corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostIP: "127.0.0.1"}}}}}, 0},
	} {
		got := checkLoopbackPorts(question{pod: &corev1.Pod{Spec: c.pod}, facts: host.Facts{Runtime: host.Runtime{Name: c.runtime}}})
		if len(got) != c.want || c.want > 0 && (!got[0].Warning || got[0].Field != "spec.containers[1].ports[0].hostIP") {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

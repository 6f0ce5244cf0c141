package lifecycle

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// TestStatusResources checks that the status has the runtime's values, according to the
// kubelet's rules (convertContainerStatusResources).
func TestStatusResources(t *testing.T) {
	both := corev1.ResourceRequirements{Limits: amounts("1", "32Mi"), Requests: amounts("100m", "16Mi")}
	least := corev1.ResourceRequirements{Limits: amounts("5m", "32Mi"), Requests: amounts("1m", "16Mi")}
	for _, test := range []struct {
		name   string
		spec   corev1.ResourceRequirements
		state  State
		actual *Actual
		want   corev1.ResourceRequirements
	}{
		{"not reported", both, Running, nil, both},
		{"as in the spec", both, Running, &Actual{102, 100000, 100000, 32 << 20}, both},
		{"not resized yet", both, Running, &Actual{512, 50000, 100000, 64 << 20},
			corev1.ResourceRequirements{Limits: amounts("500m", "64Mi"), Requests: amounts("500m", "16Mi")}},
		{"ended", both, Exited, &Actual{512, 50000, 100000, 64 << 20}, both},
		{"the smallest", least, Running, &Actual{2, 1000, 100000, 32 << 20}, least},
		{"no limit", both, Running, &Actual{CPUShares: 102, CPUQuota: -1, CPUPeriod: 100000}, both},
		{"nothing asked for", corev1.ResourceRequirements{}, Running, &Actual{2, 1000, 100000, 32 << 20}, corev1.ResourceRequirements{}},
	} {
		c := &corev1.Container{Name: "a", Resources: test.spec}
		before := c.DeepCopy()
		got := actualResources(c, &Container{State: test.state, Actual: test.actual}, nil)
		if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if diff := cmp.Diff(before, c); diff != "" {
			t.Errorf("%s: the spec was changed: %s", test.name, diff)
		}
	}
}

// TestD5StatusIsBounded checks that the termination messages of a pod's containers together have
// at most 12 KiB, as in the kubelet (normalizeStatus).
func TestD5StatusIsBounded(t *testing.T) {
	long := strings.Repeat("漢", 1<<20)
	pod := statusPod(corev1.RestartPolicyAlways, "i:i", "a", "b")
	obs := statusObserved(t, 1, "i=0", "a=1", "a#1=2", "b=3")
	messages := map[string]string{}
	for i := range obs.Containers {
		obs.Containers[i].Message, messages[obs.Containers[i].ID] = long, long
	}
	s := Status(pod, StatusInput{Observed: obs, Messages: messages})
	ends := map[string]*corev1.ContainerStateTerminated{
		"i": s.InitContainerStatuses[0].State.Terminated, "a": s.ContainerStatuses[0].State.Terminated,
		"a before": s.ContainerStatuses[0].LastTerminationState.Terminated, "b": s.ContainerStatuses[1].State.Terminated,
	}
	for name, end := range ends {
		if n := len(end.Message); n > 4096 || n < 4093 || !utf8.ValidString(end.Message) {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

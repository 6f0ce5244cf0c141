package resource

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCPU(t *testing.T) {
	for _, tt := range []struct {
		milli  int64
		shares uint64
		// CPU quota in µs for a period of 100 ms
		quota int64
	}{
		{0, 2, 0}, // 0 means no quota
		{1, 2, 1000},
		{5, 5, 1000}, // the minimum of quotas
		{250, 256, 25000},
		{1000, 1024, 100000},
		// the maximum of shares
		{1 << 20, 262144, 104857600},
	} {
		if got := CPUShares(tt.milli); got != tt.shares {
			t.Errorf("%dm: %d shares, want %d", tt.milli, got, tt.shares)
		}
		if got := CPUQuota(tt.milli, 100000); got != tt.quota {
			t.Errorf("%dm: quota %d, want %d", tt.milli, got, tt.quota)
		}
	}
}

func TestLinuxRequestDefaultsToLimit(t *testing.T) {
	limit, zero := resource.MustParse("500m"), resource.MustParse("0")
	memory := resource.MustParse("1Mi")
	n := Node{CFSQuota: true, PeriodMicros: 100000}
	if r := Linux(n, nil, &limit, &memory); r.CpuShares != 512 || r.CpuQuota != 50000 || r.MemoryLimitInBytes != 1<<20 || r.Unified != nil {
		t.Errorf("got %v", r)
	}
	if r := Linux(n, &zero, &limit, &memory); r.CpuShares != 2 {
		t.Errorf("a request of 0 is one: got %v", r)
	}
}

// TestOOMScoreOfNodeCritical checks that the kernel kills a pod of class system-node-critical last,
// even if podrun has not resolved the pod's priority.
func TestOOMScoreOfNodeCritical(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	c := &pod.Spec.Containers[0]
	if got := OOMScoreAdj(pod, c, 1<<30); got != 1000 {
		t.Errorf("best effort: %d", got)
	}
	pod.Spec.PriorityClassName = "system-node-critical"
	if got := OOMScoreAdj(pod, c, 1<<30); got != -997 {
		t.Errorf("node critical: %d", got)
	}
	if pod.Spec.Priority != nil {
		t.Error("the pod was changed")
	}
	pod.Spec.PriorityClassName = "system-cluster-critical"
	if got := OOMScoreAdj(pod, c, 1<<30); got != 1000 {
		t.Errorf("cluster critical is not node critical: %d", got)
	}
}

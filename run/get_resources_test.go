package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

func amountsOf(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// TestGetShowsActualResources: a container whose runtime has other limits than
// its spec is not shown with the spec's.
func TestGetShowsActualResources(t *testing.T) {
	r := newRig(t, critest.Features(&runtimeapi.RuntimeFeatures{}))
	r.mustApply(podText("web", "Always",
		"containers: [{name: app, image: registry.example/app:1, resources: {limits: {cpu: 500m, memory: 32Mi}, requests: {cpu: 250m, memory: 16Mi}}}]"), OutcomeCreated)
	s := r.got("web").Status.ContainerStatuses[0]
	if diff := cmp.Diff(&corev1.ResourceRequirements{Limits: amountsOf("500m", "32Mi"), Requests: amountsOf("250m", "16Mi")}, s.Resources); diff != "" {
		t.Error(diff)
	}
	id := s.ContainerID[len("containerd://"):]
	_, err := r.engine().Client.Runtime.UpdateContainerResources(t.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{
		CpuPeriod: 100000, CpuQuota: 20000, CpuShares: 256, MemoryLimitInBytes: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	s = r.got("web").Status.ContainerStatuses[0]
	if diff := cmp.Diff(&corev1.ResourceRequirements{Limits: amountsOf("200m", "64Mi"), Requests: amountsOf("250m", "16Mi")}, s.Resources); diff != "" {
		t.Error(diff)
	}
	r.mustDelete()
}

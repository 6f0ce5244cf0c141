package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestGetShowsActualResources covers a container whose limits in the runtime differ from those
// in its spec: get must not show the limits in the spec.
func TestGetShowsActualResources(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critest.Features(&runtimeapi.RuntimeFeatures{}))
	r.MustApply(rig.PodText("web", "Always",
		"containers: [{name: app, image: registry.example/app:1, resources: {limits: {cpu: 500m, memory: 32Mi}, requests: {cpu: 250m, memory: 16Mi}}}]"), run.OutcomeCreated)
	pod := r.Pod("web")
	s, want := pod.Status.ContainerStatuses[0], pod.Spec.Containers[0].Resources
	if diff := cmp.Diff(&want, s.Resources); diff != "" {
		t.Error(diff)
	}
	id := s.ContainerID[len("containerd://"):]
	_, err := r.Engine().Client.Runtime.UpdateContainerResources(t.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{
		CpuPeriod: 100000, CpuQuota: 20000, CpuShares: 256, MemoryLimitInBytes: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	s = r.Pod("web").Status.ContainerStatuses[0]
	want.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	if diff := cmp.Diff(&want, s.Resources); diff != "" {
		t.Error(diff)
	}
	r.MustDelete()
}

package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/run/lifecycle"
)

// TestUserOf checks the identity of a container's first process, which only some runtimes report (KEP-3619).
func TestUserOf(t *testing.T) {
	for name, tc := range map[string]struct {
		reported *runtimeapi.ContainerUser
		want     *corev1.ContainerUser
	}{
		"not reported": {nil, nil},
		"not of Linux": {&runtimeapi.ContainerUser{}, &corev1.ContainerUser{}},
		"of Linux": {&runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 1000, Gid: 2000, SupplementalGroups: []int64{7, 2000}}},
			&corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 2000, SupplementalGroups: []int64{7, 2000}}}},
	} {
		if diff := cmp.Diff(tc.want, userOf(tc.reported)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestActualOf checks the resources that the runtime reports.
func TestActualOf(t *testing.T) {
	if got := actualOf(nil); got != nil {
		t.Errorf("not reported: %+v", got)
	}
	got := actualOf(&runtimeapi.LinuxContainerResources{CpuShares: 256, CpuQuota: 20000, CpuPeriod: 100000, MemoryLimitInBytes: 64 << 20})
	if diff := cmp.Diff(&lifecycle.Actual{CPUShares: 256, CPUQuota: 20000, CPUPeriod: 100000, MemoryLimit: 64 << 20}, got); diff != "" {
		t.Error(diff)
	}
}

// TestValuesOfRuntimes checks states, times and process IDs, including those that only some runtimes report.
func TestValuesOfRuntimes(t *testing.T) {
	for state, want := range map[runtimeapi.ContainerState]lifecycle.State{
		runtimeapi.ContainerState_CONTAINER_CREATED: lifecycle.Created, runtimeapi.ContainerState_CONTAINER_RUNNING: lifecycle.Running,
		runtimeapi.ContainerState_CONTAINER_EXITED: lifecycle.Exited, runtimeapi.ContainerState_CONTAINER_UNKNOWN: lifecycle.Unknown, 77: lifecycle.Unknown,
	} {
		if got := stateOf(state); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	for ns, want := range map[int64]time.Time{0: {}, -62135596800000000: {}, 5: time.Unix(0, 5)} {
		if got := unixNano(ns); !got.Equal(want) {
			t.Errorf("%d: %v, want %v", ns, got, want)
		}
	}
	for info, want := range map[string]int{`{"pid": 123, "sandboxID": "s"}`: 123, `{}`: 0, ``: 0, `[]`: 0} {
		if got := pidOf(map[string]string{"info": info}); got != want {
			t.Errorf("%s: %d, want %d", info, got, want)
		}
	}
}

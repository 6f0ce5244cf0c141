package cri

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestStartCanceled(t *testing.T) {
	exited := runtimeapi.ContainerState_CONTAINER_EXITED
	for _, tc := range []struct {
		status *runtimeapi.ContainerStatus
		want   bool
	}{
		// recorded with containerd 1.6.20
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: "failed to create containerd task: failed to create shim task: context canceled: unknown"}, true},
		// recorded with containerd 2.4.2, which noticed that the context was canceled before it
		// called the shim
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: "failed to create containerd task: context canceled"}, true},
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown"}, true},
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: "failed to create containerd task: failed to start shim: start failed: unix:///run/containerd/s/276c: signal: killed: unknown"}, true},
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: `failed to create containerd task: failed to create shim task: OCI runtime create failed: exec: "x": executable file not found in $PATH: unknown`}, false},
		// The container may have run, so this is not a canceled start.
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: `failed to start containerd task "c": context canceled: unknown`}, false},
		// The words "context canceled" are the container's command in its manifest, not the
		// runtime's text.
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", Message: `failed to create containerd task: failed to create shim task: OCI runtime create failed: exec: "context canceled": executable file not found in $PATH: unknown`}, false},
		// A container that has a start time has run.
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 128, Reason: "StartError", StartedAt: 1, Message: "context canceled"}, false},
		{&runtimeapi.ContainerStatus{State: exited, ExitCode: 1, Reason: "Error", Message: "context canceled"}, false},
		{&runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_CREATED}, false},
	} {
		if got := StartCanceled(tc.status); got != tc.want {
			t.Errorf("%s %q: %v", tc.status.State, tc.status.Message, got)
		}
	}
}

package engine

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// TestRuntimeNotReady checks that podrun starts no pod on a runtime that reports that it is not
// ready. If only the runtime's network is not ready, podrun must start pods that use the host's
// network.
func TestRuntimeNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rt.SetCondition(runtimeapi.NetworkReady, false, "NetworkPluginNotReady", "cni config uninitialized")
	spec := "containers: [{name: app, image: registry.example/app:1}]"
	wantErr(t, r.apply(podText("web", "Always", spec)).Err, problem.Refused, "network is not ready: NetworkPluginNotReady cni config uninitialized")
	r.mustApply(podText("host", "Always", "hostNetwork: true", spec), run.OutcomeCreated)
	d, err := run.Doctor(t.Context(), r.engine(), load(t, podText("web", "Always", spec)), run.DoctorOptions{AllowKubelet: true})
	if err != nil || d.Verdict != "fail" || d.Refusal() == nil {
		t.Errorf("doctor: %s, %v", d.Verdict, err)
	}
	if d, err = run.Doctor(t.Context(), r.engine(), load(t, podText("host", "Always", "hostNetwork: true", spec)), run.DoctorOptions{AllowKubelet: true}); err != nil || d.Refusal() != nil {
		t.Errorf("doctor of a pod on the host's network: %v, %v", d.Refusal(), err)
	}
	r.rt.SetCondition(runtimeapi.RuntimeReady, false, "", "")
	wantErr(t, r.apply(podText("more", "Always", "hostNetwork: true", spec)).Err, problem.Refused, "container runtime is not ready")
	r.mustDelete()
}

package start

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestRuntimeNotReady checks that podrun starts no pod on a runtime that reports that it is not
// ready. If only the runtime's network is not ready, podrun must start pods that use the host's
// network.
func TestRuntimeNotReady(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.SetCondition(runtimeapi.NetworkReady, false, "NetworkPluginNotReady", "cni config uninitialized")
	spec := "containers: [{name: app, image: registry.example/app:1}]"
	rig.WantErr(t, r.Apply(rig.PodText("web", "Always", spec)).Err, problem.Refused, "network is not ready: NetworkPluginNotReady cni config uninitialized")
	r.MustApply(rig.PodText("host", "Always", "hostNetwork: true", spec), run.OutcomeCreated)
	d, err := run.Doctor(t.Context(), r.Engine(), rig.Load(t, rig.PodText("web", "Always", spec)), run.DoctorOptions{AllowKubelet: true})
	if err != nil || d.Verdict != "fail" || d.Refusal() == nil {
		t.Errorf("doctor: %s, %v", d.Verdict, err)
	}
	if d, err = run.Doctor(t.Context(), r.Engine(), rig.Load(t, rig.PodText("host", "Always", "hostNetwork: true", spec)), run.DoctorOptions{AllowKubelet: true}); err != nil || d.Refusal() != nil {
		t.Errorf("doctor of a pod on the host's network: %v, %v", d.Refusal(), err)
	}
	r.Runtime.SetCondition(runtimeapi.RuntimeReady, false, "", "")
	rig.WantErr(t, r.Apply(rig.PodText("more", "Always", "hostNetwork: true", spec)).Err, problem.Refused, "container runtime is not ready")
	r.MustDelete()
}

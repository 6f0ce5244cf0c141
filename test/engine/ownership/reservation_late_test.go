package ownership

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestReservationReleasedWhileReading covers another podrun process that reads the host while a pod
// starts. It must find the pod, either by its reservation or by its sandbox.
func TestReservationReleasedWhileReading(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	e := r.Engine()
	targets, _, err := e.Prepare(t.Context(), rig.Load(t, rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")), run.PrepareOptions{AllowKubelet: true})
	if err != nil {
		t.Fatal(err)
	}
	reservation, err := e.HoldResources(targets[0].Plan)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Runtime.Fault("ListPodSandbox", critest.Fault{Match: func(proto.Message) bool {
		// The sandbox appears immediately after this list was read.
		reservation.Release()
		return false
	}})()
	facts, err := discover.Read(t.Context(), r.Runtime.Client(), r.Settings, discover.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(facts.Pods, func(p host.Pod) bool { return p.Name == "web" }) {
		t.Errorf("the pods are %v, without the one that starts", facts.Pods)
	}
}

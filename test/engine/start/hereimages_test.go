package start

import (
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestForeignImageRefused covers a present image for another architecture: podrun must refuse
// the pod before it creates anything. If the pull policy is Always, podrun must not refuse it,
// because the pull may return the right image.
func TestForeignImageRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.AddImage(critest.Image{Name: "registry.example/foreign:1", Arch: "alpha"})
	spec := "containers: [{name: app, image: registry.example/foreign:1}]"
	rig.WantErr(t, r.Apply(rig.PodText("web", "Always", spec)).Err, problem.Refused, "spec.containers[0].image", `image "registry.example/foreign:1" is for linux/alpha, but this host is linux/`)
	if changes := r.Runtime.Changes(); len(changes) > 0 {
		t.Errorf("%q", changes)
	}
	r.NothingLeft()
	r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/foreign:1, imagePullPolicy: Always}]"), run.OutcomeCreated)
	r.MustDelete()
}

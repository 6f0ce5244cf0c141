package engine

import (
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/prepare"
)

func TestRunsHere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		image    host.Image
		arch     string
		emulated []string
		want     bool
	}{
		{host.Image{OS: "linux", Arch: "amd64"}, "amd64", nil, true},
		{host.Image{OS: "linux", Arch: "arm64"}, "amd64", nil, false},
		{host.Image{OS: "linux", Arch: "arm64"}, "amd64", []string{"arm", "aarch64"}, true},
		{host.Image{OS: "linux", Arch: "386"}, "amd64", nil, true},
		{host.Image{OS: "linux", Arch: "arm"}, "arm64", nil, true},
		{host.Image{OS: "linux", Arch: "arm"}, "amd64", []string{"aarch64"}, false},
		{host.Image{OS: "windows", Arch: "amd64"}, "amd64", nil, false},
		{host.Image{}, "amd64", nil, true},
		{host.Image{OS: "linux", Arch: "odd"}, "amd64", []string{""}, false},
	} {
		if got := prepare.RunsOnHost(tc.image, host.Facts{OS: "linux", Arch: tc.arch, Emulated: tc.emulated}); got != tc.want {
			t.Errorf("%+v on %s %v: %v", tc.image, tc.arch, tc.emulated, got)
		}
	}
}

// TestForeignImageRefused covers a present image for another architecture: podrun must refuse
// the pod before it creates anything. If the pull policy is Always, podrun must not refuse it,
// because the pull may return the right image.
func TestForeignImageRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rt.AddImage(critest.Image{Name: "registry.example/foreign:1", Arch: "alpha"})
	spec := "containers: [{name: app, image: registry.example/foreign:1}]"
	wantErr(t, r.apply(podText("web", "Always", spec)).Err, problem.Refused, "spec.containers[0].image", `image "registry.example/foreign:1" is for linux/alpha, but this host is linux/`)
	if changes := r.rt.Changes(); len(changes) > 0 {
		t.Errorf("%q", changes)
	}
	r.nothingLeft()
	r.mustApply(podText("web", "Always", "containers: [{name: app, image: registry.example/foreign:1, imagePullPolicy: Always}]"), run.OutcomeCreated)
	r.mustDelete()
}

package start

import (
	"errors"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestSandboxImageIsNamed checks that the error of an apply names an unavailable sandbox image
// (run/start.TestSandboxError: of each runtime). It uses containerd's error.
func TestSandboxImageIsNamed(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critest.Version("containerd", "v2.1.4"))
	r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Before, Err: errors.New(`failed to start sandbox "407b3e4c": failed to get sandbox image "r.example/pause:3.9": failed to pull image "r.example/pause:3.9"`)})
	err := r.Apply(rig.Web("Never")).Err
	rig.WantErr(t, err, problem.Image, "pod default/web: create sandbox")
	rig.WantHint(t, err, "image r.example/pause:3.9 was not found")
	rig.WantHint(t, err, `pinned_images.sandbox in [plugins.'io.containerd.cri.v1.images']`)
}

package start

import (
	"errors"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestSandboxImageIsNamed checks that the error names an unavailable sandbox image. It uses
// containerd's error.
func TestSandboxImageIsNamed(t *testing.T) {
	t.Parallel()
	for version, test := range map[string]struct{ text, key string }{
		"1.6.20": {`failed to get sandbox image "r.example/pause:3.9": failed to pull image "r.example/pause:3.9": failed to pull and unpack image "r.example/pause:3.9": failed to resolve reference "r.example/pause:3.9": r.example/pause:3.9: not found`,
			`sandbox_image in [plugins."io.containerd.grpc.v1.cri"]`},
		"v2.1.4": {`failed to start sandbox "407b3e4c": failed to get sandbox image "r.example/pause:3.9": failed to pull image "r.example/pause:3.9": failed to pull and unpack image "r.example/pause:3.9": failed to resolve image: r.example/pause:3.9: not found`,
			`pinned_images.sandbox in [plugins.'io.containerd.cri.v1.images']`},
		"v2.4.2": {`failed to pull image "r.example/pause:3.9": failed to pull and unpack image "r.example/pause:3.9": failed to resolve image: failed to do request: Head "https://r.example/v2/pause/manifests/3.9": dial tcp: lookup r.example: no such host`,
			`pinned_images.sandbox in [plugins.'io.containerd.cri.v1.images']`},
	} {
		r := rig.New(t, critest.Version("containerd", version))
		r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Before, Err: errors.New(test.text)})
		result := r.Apply(rig.Web("Never"))
		var e *problem.Error
		if !errors.As(result.Err, &e) || e.Kind != problem.Image || !strings.Contains(e.Hint, "r.example/pause:3.9") {
			t.Errorf("%s: %v", version, result.Err)
		}
		if !strings.Contains(e.Hint, "image r.example/pause:3.9 was not found") || !strings.Contains(e.Hint, test.key) {
			t.Errorf("%s: %s", version, e.Hint)
		}
	}
	r := rig.New(t)
	r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Before, Err: errors.New(`failed to setup network for sandbox "a": plugin "bridge" failed`)})
	rig.WantErr(t, r.Apply(rig.Web("Never")).Err, problem.Runtime, "bridge")
}

package start

import (
	"errors"
	"strings"
	"testing"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
)

// TestSandboxError checks the error of a sandbox that the runtime could not create: its kind, and the
// hint for errors of runtimes that users cannot understand.
func TestSandboxError(t *testing.T) {
	containerd := func(version string) host.Runtime { return host.Runtime{Name: "containerd", Version: version} }
	for name, tc := range map[string]struct {
		runtime host.Runtime
		text    string
		kind    problem.Kind
		hints   []string
	}{
		"containerd 1.6 without the sandbox image": {containerd("1.6.20"),
			`failed to get sandbox image "r.example/pause:3.9": failed to pull image "r.example/pause:3.9": failed to pull and unpack image "r.example/pause:3.9": failed to resolve reference "r.example/pause:3.9": r.example/pause:3.9: not found`,
			problem.Image, []string{"image r.example/pause:3.9 was not found", `sandbox_image in [plugins."io.containerd.grpc.v1.cri"]`}},
		"containerd 2.1 without the sandbox image": {containerd("v2.1.4"),
			`failed to start sandbox "407b3e4c": failed to get sandbox image "r.example/pause:3.9": failed to pull image "r.example/pause:3.9": failed to pull and unpack image "r.example/pause:3.9": failed to resolve image: r.example/pause:3.9: not found`,
			problem.Image, []string{"image r.example/pause:3.9 was not found", `pinned_images.sandbox in [plugins.'io.containerd.cri.v1.images']`}},
		"containerd 2.4 without the sandbox image": {containerd("v2.4.2"),
			`failed to pull image "r.example/pause:3.9": failed to pull and unpack image "r.example/pause:3.9": failed to resolve image: failed to do request: Head "https://r.example/v2/pause/manifests/3.9": dial tcp: lookup r.example: no such host`,
			problem.Image, []string{"image r.example/pause:3.9 was not found", `pinned_images.sandbox in [plugins.'io.containerd.cri.v1.images']`}},
		"CRI-O without the sandbox image": {host.Runtime{Name: "cri-o", Version: "1.31.0"},
			`initializing source docker://r.example/pause:3.9: reading manifest 3.9 in r.example/pause: manifest unknown`,
			problem.Image, []string{"image r.example/pause:3.9 was not found", "pause_image in [crio.image]"}},
		"network": {containerd("v2.1.4"), `failed to setup network for sandbox "a": plugin "bridge" failed`, problem.Runtime, nil},
		"cgroup driver": {containerd("v2.1.4"), `expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/x" instead`,
			problem.Runtime, []string{"--cgroup-driver=systemd"}},
		"oom_score_adj": {containerd("v2.1.4"), `runc create failed: can't get final child's PID from pipe: EOF`, problem.Runtime, []string{"oom_score_adj", "restrict_oom_score_adj"}},
	} {
		plan := &prepare.Plan{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u"}}
		plan.Facts.Runtime = tc.runtime
		st := &Starter{pod: pod.New(&node.Node{}, plan)}
		e, ok := errors.AsType[*problem.Error](st.sandboxError(errors.New(tc.text), nil))
		if !ok || e.Kind != tc.kind || e.Object != "pod default/web" || e.Op != "create sandbox" || !strings.Contains(e.Error(), tc.text) {
			t.Errorf("%s: %+v", name, e)
		}
		for _, hint := range tc.hints {
			if !strings.Contains(e.Hint, hint) {
				t.Errorf("%s: hint without %q: %s", name, hint, e.Hint)
			}
		}
		if len(tc.hints) == 0 && e.Hint != "" {
			t.Errorf("%s: hint %q", name, e.Hint)
		}
		failed := st.sandboxError(&problem.Error{Op: "read sandbox", Err: errors.New("gone")}, errors.New("sandbox abc is left"))
		if got, want := failed.Error(), "pod default/web: read sandbox: gone; sandbox abc is left"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

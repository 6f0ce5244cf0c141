package engine

import (
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
)

// TestServeShowsWhyAnImageIsMissing checks the reason and the message of a container that waits for its image,
// beside `podrun serve`, with the texts of the kubelet (pkg/kubelet/images/image_manager.go).
func TestServeShowsWhyAnImageIsMissing(t *testing.T) {
	for name, tc := range map[string]struct{ container, reason, message string }{
		"Never": {"image: registry.example/absent:1, imagePullPolicy: Never", "ErrImageNeverPull", `Container image "registry.example/absent:1" is not present with pull policy of Never`},
		"not found": {"image: registry.example/absent:1", "ImagePullBackOff",
			`Back-off pulling image "registry.example/absent:1": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "registry.example/absent:1": failed to resolve reference "registry.example/absent:1": registry.example/absent:1: not found`},
	} {
		t.Run(name, func(t *testing.T) {
			serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
				s.files.write(file("web"), podText("web", "Always", "containers: [{name: app, "+tc.container+"}, {name: side, image: registry.example/db:1}]"))
				for _, after := range []time.Duration{5 * time.Second, 15 * time.Second, 10 * time.Minute} {
					time.Sleep(after)
					state := s.shown().Status.ContainerStatuses[0].State.Waiting
					if state == nil || state.Reason != tc.reason || state.Message != tc.message {
						t.Errorf("waiting: %+v\nevents %q", state, s.reasons())
					}
					if side := s.shown().Status.ContainerStatuses[1]; side.State.Running == nil {
						t.Errorf("the other container: %+v", side.State)
					}
				}
				s.rt.AddImage(critest.Image{Name: "registry.example/absent:1", Entrypoint: []string{"/server"}})
				time.Sleep(6 * time.Minute)
				if state := s.shown().Status.ContainerStatuses[0].State; state.Running == nil {
					t.Errorf("the container does not run: %+v", state)
				}
			})
		})
	}
}

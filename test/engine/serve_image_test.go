package engine

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
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

// TestServeAttendsWhilePulling covers a changed file whose image takes long to pull. During the pull, the pod of the
// earlier definition is still supervised: podrun restarts a container that exits, and one that fails its liveness probe.
func TestServeAttendsWhilePulling(t *testing.T) {
	t.Parallel()
	const slow = "registry.example/slow:1"
	probed := strings.Replace(servedPod("web"), "app:1", "app:1, livenessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}", 1)
	for name, changed := range map[string]string{
		"update in place":      "slow:1",
		"replacement":          "slow:1, args: [x]",
		"image without change": "slow:1, imagePullPolicy: Always, args: [x]",
	} {
		t.Run(name, func(t *testing.T) {
			serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
				s.rt.AddRemote(critest.Image{Name: slow, Entrypoint: []string{"/server"}, PullDelay: 10 * time.Minute})
				var unhealthy atomic.Bool
				s.rt.ScriptExec("web", func([]string) *critest.Exec {
					if unhealthy.Swap(false) {
						return &critest.Exec{ExitCode: 1}
					}
					return &critest.Exec{}
				})
				s.files.write(file("web"), probed)
				time.Sleep(11 * time.Minute) // also resets the back-off of restarts
				first := s.running("web")
				s.files.write(file("web"), strings.Replace(probed, "app:1", changed, 1))
				time.Sleep(time.Minute)
				s.same(first)
				s.exit("web", 1)
				time.Sleep(30 * time.Second)
				second := s.running("web")
				if second.ID == first.ID || second.Config.GetImage().GetUserSpecifiedImage() != first.Config.GetImage().GetUserSpecifiedImage() {
					t.Errorf("after the exit: %+v; events %q", second.Config, s.reasons())
				}
				unhealthy.Store(true)
				time.Sleep(time.Minute)
				if third := s.running("web"); third.ID == second.ID {
					t.Errorf("an unhealthy container was not restarted; events %q", s.reasons())
				}
				time.Sleep(10 * time.Minute)
				if c := s.running("web"); c.Config.GetImage().GetUserSpecifiedImage() != slow {
					t.Errorf("after the pull: %+v; events %q", c.Config, s.reasons())
				}
				if got := s.rt.CallNames("PullImage"); len(got) != 1 {
					t.Errorf("%d pulls; events %q", len(got), s.reasons())
				}
				if !s.emitted("Pulled web", "Successfully pulled image \""+slow) {
					t.Errorf("events %q", s.reasons())
				}
				for _, c := range s.got("web").Status.Conditions {
					if c.Type == "UpdatePending" {
						t.Errorf("%+v", c)
					}
				}
			})
		})
	}
}

// TestServeCancelsPull checks that a pull for a changed file ends if the file changes back, or is removed, and that a
// command can stop the pod during the pull.
func TestServeCancelsPull(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		act   func(s *serving)
		check func(s *serving, before critest.Container)
	}{
		"changed back": {func(s *serving) { s.files.write(file("web"), servedPod("web")) }, (*serving).same},
		"removed":      {func(s *serving) { s.files.remove(file("web")) }, func(s *serving, _ critest.Container) { s.absent("web") }},
		"stopped": {func(s *serving) { s.noError(run.StopPods(s.t.Context(), s.engine(), s.known(), run.DeleteOptions{})) }, func(s *serving, _ critest.Container) {
			if c, _ := s.rt.Container("web"); c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				s.t.Errorf("container %+v", c)
			}
		}},
		"supervisor restarted": {func(s *serving) { s.restart() }, (*serving).same},
	} {
		t.Run(name, func(t *testing.T) {
			serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
				s.rt.AddRemote(critest.Image{Name: "registry.example/slow:1", Entrypoint: []string{"/server"}, PullDelay: time.Hour})
				s.files.write(file("web"), servedPod("web"))
				time.Sleep(time.Minute)
				web := s.running("web")
				s.files.write(file("web"), strings.Replace(servedPod("web"), "app:1", "slow:1, args: [x]", 1))
				time.Sleep(time.Minute)
				test.act(s)
				time.Sleep(time.Minute)
				test.check(s, web)
			})
		})
	}
}

// TestServeAdoptsWithoutPull: podrun pulls no image for a file that defines a pod as it is, although the policy is
// Always: the registry may be unreachable.
func TestServeAdoptsWithoutPull(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		text := strings.Replace(servedPod("web"), "app:1", "app:1, imagePullPolicy: Always", 1)
		s.mustApply(text, run.OutcomeCreated)
		time.Sleep(time.Minute)
		web, pulls := s.running("web"), s.callsTo("PullImage")
		s.files.write(file("web"), text)
		time.Sleep(time.Minute)
		s.same(web)
		if n := s.callsTo("PullImage"); n != pulls {
			t.Errorf("%d pulls, want %d; events %q", n, pulls, s.reasons())
		}
	})
}

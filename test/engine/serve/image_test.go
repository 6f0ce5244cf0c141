package serve

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
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
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "containers: [{name: app, "+tc.container+"}, {name: side, image: registry.example/db:1}]"))
				for _, after := range []time.Duration{5 * time.Second, 15 * time.Second, 10 * time.Minute} {
					time.Sleep(after)
					state := s.OnlyPod().Status.ContainerStatuses[0].State.Waiting
					if state == nil || state.Reason != tc.reason || state.Message != tc.message {
						t.Errorf("waiting: %+v\nevents %q", state, s.Reasons())
					}
					if side := s.OnlyPod().Status.ContainerStatuses[1]; side.State.Running == nil {
						t.Errorf("the other container: %+v", side.State)
					}
				}
				s.Runtime.AddImage(critest.Image{Name: "registry.example/absent:1", Entrypoint: []string{"/server"}})
				time.Sleep(6 * time.Minute)
				if state := s.OnlyPod().Status.ContainerStatuses[0].State; state.Running == nil {
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
	probed := strings.Replace(rig.ServedPod("web"), "app:1", "app:1, livenessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}", 1)
	for name, changed := range map[string]string{
		"update in place":      "slow:1",
		"replacement":          "slow:1, args: [x]",
		"image without change": "slow:1, imagePullPolicy: Always, args: [x]",
	} {
		t.Run(name, func(t *testing.T) {
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				s.Runtime.AddRemote(critest.Image{Name: slow, Entrypoint: []string{"/server"}, PullDelay: 10 * time.Minute})
				var unhealthy atomic.Bool
				s.Runtime.ScriptExec("web", func([]string) *critest.Exec {
					if unhealthy.Swap(false) {
						return &critest.Exec{ExitCode: 1}
					}
					return &critest.Exec{}
				})
				s.Files.Write(rig.File("web"), probed)
				time.Sleep(11 * time.Minute) // also resets the back-off of restarts
				first := s.Running("web")
				s.Files.Write(rig.File("web"), strings.Replace(probed, "app:1", changed, 1))
				time.Sleep(time.Minute)
				s.Same(first)
				s.Exit("web", 1)
				time.Sleep(30 * time.Second)
				second := s.Running("web")
				if second.ID == first.ID || second.Config.GetImage().GetUserSpecifiedImage() != first.Config.GetImage().GetUserSpecifiedImage() {
					t.Errorf("after the exit: %+v; events %q", second.Config, s.Reasons())
				}
				unhealthy.Store(true)
				time.Sleep(time.Minute)
				if third := s.Running("web"); third.ID == second.ID {
					t.Errorf("an unhealthy container was not restarted; events %q", s.Reasons())
				}
				time.Sleep(10 * time.Minute)
				if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != slow {
					t.Errorf("after the pull: %+v; events %q", c.Config, s.Reasons())
				}
				if got := s.Runtime.CallNames("PullImage"); len(got) != 1 {
					t.Errorf("%d pulls; events %q", len(got), s.Reasons())
				}
				if !s.Emitted("Pulled web", "Successfully pulled image \""+slow) {
					t.Errorf("events %q", s.Reasons())
				}
				for _, c := range s.Pod("web").Status.Conditions {
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
		act   func(s *rig.Supervised)
		check func(s *rig.Supervised, before critest.Container)
	}{
		"changed back": {func(s *rig.Supervised) { s.Files.Write(rig.File("web"), rig.ServedPod("web")) }, (*rig.Supervised).Same},
		"removed":      {func(s *rig.Supervised) { s.Files.Remove(rig.File("web")) }, func(s *rig.Supervised, _ critest.Container) { s.Absent("web") }},
		"stopped": {func(s *rig.Supervised) {
			s.NoError(run.StopPods(s.T.Context(), s.Engine(), s.Known(), run.DeleteOptions{}))
		}, func(s *rig.Supervised, _ critest.Container) {
			if c, _ := s.Runtime.Container("web"); c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				s.T.Errorf("container %+v", c)
			}
		}},
		"supervisor restarted": {func(s *rig.Supervised) { s.Restart() }, (*rig.Supervised).Same},
	} {
		t.Run(name, func(t *testing.T) {
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				s.Runtime.AddRemote(critest.Image{Name: "registry.example/slow:1", Entrypoint: []string{"/server"}, PullDelay: time.Hour})
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				time.Sleep(time.Minute)
				web := s.Running("web")
				s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "slow:1, args: [x]", 1))
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
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		text := strings.Replace(rig.ServedPod("web"), "app:1", "app:1, imagePullPolicy: Always", 1)
		s.MustApply(text, run.OutcomeCreated)
		time.Sleep(time.Minute)
		web, pulls := s.Running("web"), s.CallsTo("PullImage")
		s.Files.Write(rig.File("web"), text)
		time.Sleep(time.Minute)
		s.Same(web)
		if n := s.CallsTo("PullImage"); n != pulls {
			t.Errorf("%d pulls, want %d; events %q", n, pulls, s.Reasons())
		}
	})
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// slowPod returns a pod whose container uses its whole grace period of 8 s to exit.
func slowPod(arg string) string {
	return rig.PodText("web", "Always", "terminationGracePeriodSeconds: 8", "containers: [{name: web, image: registry.example/app:1, args: ["+arg+"]}]")
}

// besideServe contains commands that act on a supervised pod.
var besideServe = map[string]func(ctx context.Context, s *rig.Supervised) ([]run.Result, error){
	"apply v1": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return s.ApplyAll(ctx, slowPod("v1"))
	},
	"apply v2": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return s.ApplyAll(ctx, slowPod("v2"))
	},
	"restart": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return rig.RestartPods(ctx, s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true, Timeout: rig.Timeout})
	},
	"stop": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return run.StopPods(ctx, s.Engine(), s.Known("web"), run.DeleteOptions{Timeout: rig.Timeout}), nil
	},
	"start": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return run.StartPods(ctx, s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true, Timeout: rig.Timeout})
	},
	"delete": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return s.Delete(run.DeleteOptions{Timeout: rig.Timeout}, "web"), nil
	},
	"wait": func(ctx context.Context, s *rig.Supervised) ([]run.Result, error) {
		return rig.ResultsOf(run.WaitAll(ctx, s.Engine(), s.Known("web"), run.WaitOptions{For: "started", Timeout: rig.Timeout})), nil
	},
}

// TestPairsBesideServe runs two commands on a supervised pod. The second one starts at different
// times while the first one is active. Neither may wait for the supervisor, which never exits.
// At the end, the pod of the last successful apply must run.
func TestPairsBesideServe(t *testing.T) {
	t.Parallel()
	ring.Require(t, 2)
	for first, doFirst := range besideServe {
		for second, doSecond := range besideServe {
			for _, after := range []time.Duration{time.Second, 6 * time.Second, 8100 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s, %s after %s", first, second, after), func(t *testing.T) {
					rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
						for range 4 {
							s.Runtime.Script("web", critest.Behavior{Forever: true, IgnoreTERM: true})
						}
						s.NoError(s.ApplyAll(t.Context(), slowPod("v1")))
						time.Sleep(time.Minute)
						var took [2]time.Duration
						var errs [2]error
						done := make(chan struct{})
						begun := time.Now()
						go func() {
							defer close(done)
							errs[0] = rig.ErrorOf(doFirst(t.Context(), s))
							took[0] = time.Since(begun)
						}()
						time.Sleep(after)
						errs[1] = rig.ErrorOf(doSecond(t.Context(), s))
						took[1] = time.Since(begun) - after
						<-done
						for i, err := range errs {
							e, _ := errors.AsType[*problem.Error](err)
							if took[i] > 40*time.Second || e != nil && e.Kind == problem.Deadline {
								t.Errorf("%s took %s: %v", []string{first, second}[i], took[i], err)
							}
						}
						time.Sleep(time.Minute)
						if first == "apply v2" && errs[0] == nil && (second == "restart" || second == "wait" || second == "start") {
							if args := s.Running("web").Config.GetArgs(); strings.Join(args, " ") != "v2" {
								t.Errorf("%q runs; %s: %v", args, second, errs[1])
							}
						}
					})
				})
			}
		}
	}
}

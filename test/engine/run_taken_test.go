package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
)

// TestRunRemovesPodOfFailedApply covers a run whose pod has ended, and another command that takes
// over the pod before the run removes it. The run must wait for that command. If the command fails
// without having changed the pod, the run must remove the pod. Otherwise, it must keep the pod.
func TestRunRemovesPodOfFailedApply(t *testing.T) {
	for name, limit := range map[string]time.Duration{"the apply fails": 15 * time.Second, "the apply succeeds": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				pod := func(arg string) string {
					return podText("web", "Never", "containers: [{name: app, image: registry.example/app:1, args: ["+arg+"], imagePullPolicy: Always, lifecycle: {postStart: {exec: {command: [hook]}}}}]")
				}
				r.rt.Script("app", critest.Behavior{After: 6 * time.Second})
				r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 10 * time.Second} })
				ran := make(chan error, 1)
				go func() {
					results, err := r.engine().Run(t.Context(), load(t, pod("first")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
					if err == nil {
						err = results[0].Err
					}
					ran <- err
				}()
				time.Sleep(3 * time.Second)
				r.rt.Script("app", critest.Behavior{Forever: true})
				r.rt.Fault("PullImage", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1})
				applied := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					results, err := r.engine().Apply(ctx, load(t, pod("second")), run.ApplyOptions{AllowKubelet: true})
					if err == nil {
						err = results[0].Err
					}
					applied <- err
				}()
				if err := <-ran; err != nil {
					t.Errorf("run: %v", err)
				}
				if limit < 20*time.Second {
					if err := <-applied; err == nil {
						t.Error("the apply succeeded although the pull takes longer than its limit")
					}
					r.nothingLeft()
					return
				}
				if err := <-applied; err != nil {
					t.Errorf("apply: %v", err)
				}
				r.wantRunning("app")
				r.mustDelete()
			})
		})
	}
}

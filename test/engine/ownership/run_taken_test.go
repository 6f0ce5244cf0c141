package ownership

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestRunRemovesPodOfFailedApply covers a run whose pod has ended, and another command that takes
// over the pod before the run removes it. The run must wait for that command. If the command fails
// without having changed the pod, the run must remove the pod. Otherwise, it must keep the pod.
func TestRunRemovesPodOfFailedApply(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"the apply fails": 15 * time.Second, "the apply succeeds": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				pod := func(arg string) string {
					return rig.PodText("web", "Never", "containers: [{name: app, image: registry.example/app:1, args: ["+arg+"], imagePullPolicy: Always, lifecycle: {postStart: {exec: {command: [hook]}}}}]")
				}
				r.Runtime.Script("app", critest.Behavior{After: 6 * time.Second})
				r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 10 * time.Second} })
				ran := make(chan error, 1)
				go func() {
					results, err := rig.RunPods(t.Context(), r.Engine(), rig.Load(t, pod("first")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
					if err == nil {
						err = results[0].Err
					}
					ran <- err
				}()
				time.Sleep(3 * time.Second)
				r.Runtime.Script("app", critest.Behavior{Forever: true})
				r.Runtime.Fault("PullImage", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1})
				applied := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					applied <- rig.ErrorOf(run.ApplyPods(ctx, r.Engine(), rig.Load(t, pod("second")), run.ApplyOptions{AllowKubelet: true}))
				}()
				if err := <-ran; err != nil {
					t.Errorf("run: %v", err)
				}
				if limit < 20*time.Second {
					if err := <-applied; err == nil {
						t.Error("the apply succeeded although the pull takes longer than its limit")
					}
					r.NothingLeft()
					return
				}
				if err := <-applied; err != nil {
					t.Errorf("apply: %v", err)
				}
				r.WantRunning("app")
				r.MustDelete()
			})
		})
	}
}

// TestRunNamesTheHolderThatDelaysItsRemoval checks that a run that ends, but cannot take the pod's lock
// to remove the pod, names the process that holds the lock, and the time limit.
func TestRunNamesTheHolderThatDelaysItsRemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true})
		taken := make(chan *store.FileLock, 1)
		time.AfterFunc(10*time.Second, func() {
			held, err := store.Lock(t.Context(), r.Layout().Locks().Pod(identity.Pod{Namespace: "default", Name: "web"}), "process 1 (podrun stopped) [aa]", nil)
			if err != nil {
				t.Error(err)
			}
			taken <- held
		})
		results, err := rig.RunPods(t.Context(), r.Engine(), rig.Load(t, rig.Web("Never")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true, Timeout: 15 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		err = results[0].Err
		if err == nil || !strings.Contains(err.Error(), "clean up: pod default/web: wait for process 1 (podrun stopped): timed out after 1m0s") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		(<-taken).Unlock()
		r.MustDelete()
		r.NothingLeft()
	})
}

package engine

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
)

// TestTerminationLogOfAKilledContainer checks that podrun keeps the log for the container's
// status, even if the runtime did not respond after the container was killed.
func TestTerminationLogOfAKilledContainer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} })
		var stopped atomic.Bool
		r.rt.Fault("StopContainer", critest.Fault{Match: func(proto.Message) bool { stopped.Store(true); return false }})
		r.rt.Fault("ContainerStatus", critest.Fault{When: critest.Before, Times: 1, Match: func(proto.Message) bool { return stopped.Load() }})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		e := r.engine()
		checked := 0
		e.Emit = func(ev event.Event) {
			if ev.Reason != event.StartedContainer {
				return
			}
			for _, c := range r.rt.Containers() {
				for _, m := range c.Config.GetMounts() {
					if m.GetContainerPath() != "/dev/termination-log" {
						continue
					}
					checked++
					if _, err := os.Stat(m.GetHostPath()); err != nil {
						t.Errorf("after %d starts: %v", r.callsTo("StartContainer"), err)
					}
				}
			}
		}
		go func() {
			defer close(done)
			_, _ = runPods(ctx, e, load(t, podText("web", "Always", hooked)), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
		}()
		time.Sleep(time.Minute)
		cancel(errCtrlC)
		<-done
		if checked < 3 {
			t.Errorf("%d logs of %d starts; %v", checked, r.callsTo("StartContainer"), r.reasons())
		}
	})
}

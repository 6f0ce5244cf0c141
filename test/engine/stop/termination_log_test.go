package stop

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestTerminationLogOfAKilledContainer checks that podrun keeps the log for the container's
// status, even if the runtime did not respond after the container was killed.
func TestTerminationLogOfAKilledContainer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} })
		var stopped atomic.Bool
		r.Runtime.Fault("StopContainer", critest.Fault{Match: func(proto.Message) bool { stopped.Store(true); return false }})
		r.Runtime.Fault("ContainerStatus", critest.Fault{When: critest.Before, Times: 1, Match: func(proto.Message) bool { return stopped.Load() }})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		e := r.Engine()
		checked := 0
		e.Emit = func(ev event.Event) {
			if ev.Reason != event.StartedContainer {
				return
			}
			for _, c := range r.Runtime.Containers() {
				for _, m := range c.Config.GetMounts() {
					if m.GetContainerPath() != "/dev/termination-log" {
						continue
					}
					checked++
					if _, err := os.Stat(m.GetHostPath()); err != nil {
						t.Errorf("after %d starts: %v", r.CallsTo("StartContainer"), err)
					}
				}
			}
		}
		go func() {
			defer close(done)
			_, _ = rig.RunPods(ctx, e, rig.Load(t, rig.PodText("web", "Always", rig.WithPostStart)), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
		}()
		time.Sleep(time.Minute)
		cancel(errors.New("ended by SIGINT"))
		<-done
		if checked < 3 {
			t.Errorf("%d logs of %d starts; %v", checked, r.CallsTo("StartContainer"), r.Reasons())
		}
	})
}

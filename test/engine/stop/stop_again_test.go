package stop

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// outageFrom makes the runtime refuse connections from the first request that has the type of first until
// the returned function is called, like a restart of containerd. A call takes a millisecond.
func outageFrom(r *rig.Host, first proto.Message) (end func()) {
	var begun atomic.Bool
	refused := critest.Fault{When: critest.Before, Delay: time.Millisecond}
	refused.Match = func(req proto.Message) bool {
		if reflect.TypeOf(req) == reflect.TypeOf(first) {
			begun.Store(true)
		}
		return begun.Load()
	}
	var clear []func()
	for _, method := range rig.Methods {
		clear = append(clear, r.Runtime.Fault(method, refused))
	}
	return func() {
		for _, c := range clear {
			c()
		}
	}
}

// pauses returns the times between the calls of a method, in units of 100 ms.
func pauses(rt *critest.Runtime, method string) []int {
	var out []int
	var last time.Time
	for _, c := range rt.Calls() {
		if c.Method != method {
			continue
		}
		if !last.IsZero() {
			out = append(out, int(c.Start.Sub(last).Round(100*time.Millisecond)/(100*time.Millisecond)))
		}
		last = c.Start
	}
	return out
}

// TestStopBackOffIsHurried checks that podrun kills a container without waiting for the next
// attempt if podrun will soon be killed.
func TestStopBackOffIsHurried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hurry := make(chan struct{})
		time.AfterFunc(time.Minute, func() {
			time.AfterFunc(5200*time.Millisecond, outageFrom(r, &runtimeapi.StopContainerRequest{}))
			time.AfterFunc(4*time.Second, func() { close(hurry) })
			cancel()
		})
		_, _ = rig.RunPods(ctx, r.Engine(), rig.Load(t, rig.Web("Never")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}, Hurry: hurry})
		// podrun kills the container 1.5 s after hurry, at the end of the pause that ends 7.1 s
		// after the first attempt.
		if got, want := pauses(r.Runtime, "StopContainer"), []int{1, 2, 4, 8, 16, 20, 4}; !slices.Equal(got, want) {
			t.Errorf("%d pauses of %v00 ms, want %v", len(got), got[:min(len(got), 20)], want)
		}
		var last *runtimeapi.StopContainerRequest
		for _, c := range r.Runtime.Calls() {
			if req, is := c.Request.(*runtimeapi.StopContainerRequest); is {
				last = req
			}
		}
		if last.GetTimeout() != 0 {
			t.Errorf("the last stop has a grace period of %d s", last.GetTimeout())
		}
		r.NothingLeft()
	})
}

// TestStopThatFailsLateIsRetried covers a stop that fails late in the default grace period. podrun
// once did not retry it, because the time limit for retries, which counted from the first stop, had
// expired.
func TestStopThatFailsLateIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		r.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before, Delay: 20 * time.Second, Times: 1})
		r.MustDelete()
	})
}

// removalCalls are the calls with which a delete removes a pod.
var removalCalls = map[string]proto.Message{
	"StopContainer":    &runtimeapi.StopContainerRequest{},
	"StopPodSandbox":   &runtimeapi.StopPodSandboxRequest{},
	"RemovePodSandbox": &runtimeapi.RemovePodSandboxRequest{},
}

// TestDeleteInOutage checks that a delete succeeds if the runtime restarts while the delete stops the container,
// or stops or removes the sandbox, and that it does not repeat a call 10,000 times per second. Such a delete once
// did one or the other.
func TestDeleteInOutage(t *testing.T) {
	t.Parallel()
	for method, first := range removalCalls {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				r.Runtime.ForgetCalls()
				time.AfterFunc(8*time.Second, outageFrom(r, first))
				r.MustDelete()
				if got, want := pauses(r.Runtime, method), []int{1, 2, 4, 8, 16, 20, 20, 20}; !slices.Equal(got, want) {
					t.Errorf("%d pauses of %v00 ms, want %v", len(got), got[:min(len(got), 20)], want)
				}
			})
		})
	}
}

// TestDeleteInLongOutage checks that a delete fails 15 s after its first failed call, and
// that another delete removes the pod.
func TestDeleteInLongOutage(t *testing.T) {
	t.Parallel()
	for method, first := range removalCalls {
		if method == "StopContainer" {
			continue // TestDeleteStopsAgainForLong
		}
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				known := r.Known()
				end := outageFrom(r, first)
				begun := time.Now()
				results, err := run.DeletePods(t.Context(), r.Engine(), known, run.DeleteOptions{})
				took := time.Since(begun)
				if err != nil || len(results) != 1 || rig.KindOf(results[0].Err) != problem.Runtime {
					t.Errorf("%v, %v", results, err)
				}
				if took < 15*time.Second || took > 18*time.Second {
					t.Errorf("took %s", took)
				}
				end()
				r.NoLockHeld()
				r.MustDelete()
			})
		})
	}
}

// TestDeleteInOutageIsInterrupted checks that an interrupted command does not wait for the
// next attempt.
func TestDeleteInOutageIsInterrupted(t *testing.T) {
	t.Parallel()
	for method, first := range removalCalls {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				known := r.Known()
				end := outageFrom(r, first)
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("interrupted")
				time.AfterFunc(4*time.Second, func() { cancel(why) })
				begun := time.Now()
				results, err := run.DeletePods(ctx, r.Engine(), known, run.DeleteOptions{})
				if took := time.Since(begun); err != nil || len(results) != 1 || !errors.Is(results[0].Err, why) || took > 4*time.Second+100*time.Millisecond {
					t.Errorf("%v, %v after %s", results, err, took)
				}
				end()
				r.MustDelete()
			})
		})
	}
}

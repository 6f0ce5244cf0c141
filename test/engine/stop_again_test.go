package engine

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
)

// stopOutage makes the runtime refuse connections from the first StopContainer until the returned
// function is called, like a restart of containerd. A call takes a millisecond.
func (r *rig) stopOutage() (end func()) { return r.outageFrom(&runtimeapi.StopContainerRequest{}) }

// outageFrom is like stopOutage, but begins with the first request that has the type of first.
func (r *rig) outageFrom(first proto.Message) (end func()) {
	var begun atomic.Bool
	refused := critest.Fault{When: critest.Before, Delay: time.Millisecond}
	refused.Match = func(req proto.Message) bool {
		if reflect.TypeOf(req) == reflect.TypeOf(first) {
			begun.Store(true)
		}
		return begun.Load()
	}
	var clear []func()
	for _, method := range allMethods {
		clear = append(clear, r.rt.Fault(method, refused))
	}
	return func() {
		for _, c := range clear {
			c()
		}
	}
}

// stopPauses returns the times between the calls of StopContainer, in units of 100 ms.
func stopPauses(rt *critest.Runtime) []int { return pauses(rt, "StopContainer") }

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

// TestStopBacksOff checks that a delete does not try to stop a container 10,000 times per second
// while containerd restarts, as it once did.
func TestStopBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(one("Always"), run.OutcomeCreated)
		r.rt.ForgetCalls()
		time.AfterFunc(8*time.Second, r.stopOutage())
		r.mustDelete()
		if got, want := stopPauses(r.rt), []int{1, 2, 4, 8, 16, 20, 20, 20}; !slices.Equal(got, want) {
			t.Errorf("%d pauses of %v00 ms, want %v", len(got), got[:min(len(got), 20)], want)
		}
	})
}

// TestStopBackOffIsInterrupted checks that an interrupted command does not wait for the next
// attempt.
func TestStopBackOffIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(one("Always"), run.OutcomeCreated)
		known := r.known()
		end := r.stopOutage()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("interrupted")
		time.AfterFunc(4*time.Second, func() { cancel(why) })
		begun := time.Now()
		results, err := r.engine().Delete(ctx, known, run.DeleteOptions{})
		if took := time.Since(begun); err != nil || len(results) != 1 || !errors.Is(results[0].Err, why) || took > 4*time.Second+100*time.Millisecond {
			t.Errorf("%v, %v after %s", results, err, took)
		}
		if n := r.callsTo("StopContainer"); n > 10 {
			t.Errorf("%d calls of StopContainer", n)
		}
		end()
		r.mustDelete()
	})
}

// TestStopBackOffIsHurried checks that podrun kills a container without waiting for the next
// attempt if podrun will soon be killed.
func TestStopBackOffIsHurried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hurry := make(chan struct{})
		time.AfterFunc(time.Minute, func() {
			time.AfterFunc(5200*time.Millisecond, r.stopOutage())
			time.AfterFunc(4*time.Second, func() { close(hurry) })
			cancel()
		})
		_, _ = r.engine().Run(ctx, load(t, one("Never")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}, Hurry: hurry})
		// podrun kills the container 1.5 s after hurry, at the end of the pause that ends 7.1 s
		// after the first attempt.
		if got, want := stopPauses(r.rt), []int{1, 2, 4, 8, 16, 20, 4}; !slices.Equal(got, want) {
			t.Errorf("%d pauses of %v00 ms, want %v", len(got), got[:min(len(got), 20)], want)
		}
		var last *runtimeapi.StopContainerRequest
		for _, c := range r.rt.Calls() {
			if req, is := c.Request.(*runtimeapi.StopContainerRequest); is {
				last = req
			}
		}
		if last.GetTimeout() != 0 {
			t.Errorf("the last stop has a grace period of %d s", last.GetTimeout())
		}
		r.nothingLeft()
	})
}

// TestStopThatFailsLateIsRetried covers a stop that fails late in the default grace period. podrun
// once did not retry it, because the time limit for retries, which counted from the first stop, had
// expired.
func TestStopThatFailsLateIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(one("Always"), run.OutcomeCreated)
		r.rt.Fault("StopContainer", critest.Fault{When: critest.Before, Delay: 20 * time.Second, Times: 1})
		r.mustDelete()
	})
}

// sandboxCalls are the calls with which a delete ends a pod's sandbox.
var sandboxCalls = map[string]proto.Message{
	"StopPodSandbox":   &runtimeapi.StopPodSandboxRequest{},
	"RemovePodSandbox": &runtimeapi.RemovePodSandboxRequest{},
}

// TestDeleteSandboxInOutage checks that a delete succeeds if the runtime restarts while the delete
// is stopping or removing the sandbox. Such a delete once failed.
func TestDeleteSandboxInOutage(t *testing.T) {
	t.Parallel()
	for method, first := range sandboxCalls {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.mustApply(one("Always"), run.OutcomeCreated)
				r.rt.ForgetCalls()
				time.AfterFunc(8*time.Second, r.outageFrom(first))
				r.mustDelete()
				if got, want := pauses(r.rt, method), []int{1, 2, 4, 8, 16, 20, 20, 20}; !slices.Equal(got, want) {
					t.Errorf("%d pauses of %v00 ms, want %v", len(got), got[:min(len(got), 20)], want)
				}
			})
		})
	}
}

// TestDeleteSandboxInLongOutage checks that a delete fails 15 s after its first failed call, and
// that another delete removes the pod.
func TestDeleteSandboxInLongOutage(t *testing.T) {
	t.Parallel()
	for method, first := range sandboxCalls {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.mustApply(one("Always"), run.OutcomeCreated)
				known := r.known()
				end := r.outageFrom(first)
				begun := time.Now()
				results, err := r.engine().Delete(t.Context(), known, run.DeleteOptions{})
				took := time.Since(begun)
				if err != nil || len(results) != 1 || kindOf(results[0].Err) != problem.Runtime {
					t.Errorf("%v, %v", results, err)
				}
				if took < 15*time.Second || took > 18*time.Second {
					t.Errorf("took %s", took)
				}
				end()
				r.noLockHeld()
				r.mustDelete()
			})
		})
	}
}

// TestDeleteSandboxInOutageIsInterrupted checks that an interrupted command does not wait for the
// next attempt.
func TestDeleteSandboxInOutageIsInterrupted(t *testing.T) {
	t.Parallel()
	for method, first := range sandboxCalls {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.mustApply(one("Always"), run.OutcomeCreated)
				known := r.known()
				end := r.outageFrom(first)
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("interrupted")
				time.AfterFunc(4*time.Second, func() { cancel(why) })
				begun := time.Now()
				results, err := r.engine().Delete(ctx, known, run.DeleteOptions{})
				if took := time.Since(begun); err != nil || len(results) != 1 || !errors.Is(results[0].Err, why) || took > 4*time.Second+100*time.Millisecond {
					t.Errorf("%v, %v after %s", results, err, took)
				}
				end()
				r.mustDelete()
			})
		})
	}
}

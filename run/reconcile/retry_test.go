package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
)

// TestRetryThatFallsDueMeanwhile covers a busy host, where a step may still be delayed when the
// worker decides, but already due when the worker begins to wait. In this case, the worker must not
// wait. (The fault matrix found this with CRI-O and `serve`, with a connection failure in
// CreateContainer at a load average of 45.)
func TestRetryThatFallsDueMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retries{steps: map[string]retry{}}
		r.after("setup", time.Now())
		due := time.Now().Add(firstRetry)
		time.Sleep(firstRetry - time.Millisecond)
		if now := r.begin(); !r.held("setup", now) {
			t.Fatal("the step is not delayed")
		}
		time.Sleep(2 * time.Millisecond)
		if got := r.next(); !got.Equal(due) {
			t.Errorf("the next retry is at %v, want %v", got, due)
		}
		if now := r.begin(); r.held("setup", now) || !r.next().IsZero() {
			t.Errorf("after another decision, the step is delayed until %v", r.next())
		}
	})
}

// TestRetryDelaysOnlyItsStep includes a runtime that returns an error although it has started the
// container.
func TestRetryDelaysOnlyItsStep(t *testing.T) {
	r, now := retries{steps: map[string]retry{}}, time.Now()
	r.after("app", now)
	r.after(resizeStep, now)
	for verb, want := range map[lifecycle.Verb]bool{
		lifecycle.StartContainer: true, lifecycle.ResizePod: true,
		lifecycle.KillContainer: false, lifecycle.RunPostStart: false, lifecycle.RestartAll: false,
	} {
		if got := r.delay(lifecycle.Action{Verb: verb, Container: "app"}, now); got != want {
			t.Errorf("%s is delayed: %v", verb, got)
		}
	}
}

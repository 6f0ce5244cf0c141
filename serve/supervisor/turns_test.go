package supervisor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/run/node"
)

// TestLate checks which loops count as late, and when.
func TestLate(t *testing.T) {
	now := time.Unix(1e9, 0)
	const limit = 10 * time.Minute
	at := func(ago time.Duration) int64 { return now.Add(-ago).UnixNano() }
	for name, c := range map[string]struct {
		state, lists int64
		want         string
	}{
		"no loop has begun":             {0, 0, ""},
		"both turn":                     {at(0), at(limit), ""},
		"the state on disk is late":     {at(limit + 1), at(0), "the loop that observes the state on disk"},
		"the runtime is late":           {at(0), at(limit + 1), "the loop that observes the runtime"},
		"only the runtime's has begun":  {0, at(limit + 1), "the loop that observes the runtime"},
		"the clock was set to the past": {at(-time.Hour), at(-time.Hour), ""},
	} {
		var l turns
		l.state.Store(c.state)
		l.lists.Store(c.lists)
		if got := l.late(now, limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStuckAfter checks that calls of the runtime that end in time never make a loop late.
func TestStuckAfter(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Minute, 2 * time.Minute: 10 * time.Minute, 15 * time.Minute: 45 * time.Minute} {
		if got := stuckAfter(timeout); got != want {
			t.Errorf("runtimeRequestTimeout %s: %s, want %s", timeout, got, want)
		}
	}
}

// TestALoopThatDoesNotTurn checks that a loop that blocks is late until its next iteration. A runtime whose
// calls hang must not make a loop late, because every call has a time limit.
func TestALoopThatDoesNotTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := nodeconfig.Default()
		settings.RootDir = t.TempDir()
		rt := critest.ForTest(t)
		var blocked atomic.Pointer[chan struct{}]
		var last atomic.Pointer[Summary]
		s := New(&node.Node{Client: rt.Client(), Settings: settings}, Options{
			AllowKubelet: true, Heartbeat: 10 * time.Second, Progress: func(s Summary) { last.Store(&s) },
			Listed: func(time.Time, time.Duration, time.Duration) {
				if wait := blocked.Load(); wait != nil {
					<-*wait
				}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		restore := rt.Fault("ListPodSandbox", critest.Fault{When: critest.Hang})
		for range 60 {
			time.Sleep(time.Minute)
			if got := last.Load(); got.Late != "" {
				t.Fatalf("while the runtime hangs: %+v", got)
			}
		}
		if last.Load().Down.IsZero() {
			t.Error("the runtime counts as available")
		}
		restore()
		time.Sleep(2 * time.Minute)

		wait := make(chan struct{})
		blocked.Store(&wait)
		time.Sleep(stuckAfter(settings.RuntimeRequestTimeout) - time.Minute)
		if got := last.Load(); got.Late != "" || !got.Down.IsZero() {
			t.Errorf("before the time: %+v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := last.Load(); !strings.Contains(got.Late, "observes the runtime") {
			t.Errorf("a loop that blocks: %+v", got)
		}
		blocked.Store(nil)
		close(wait)
		time.Sleep(2 * time.Minute)
		if got := last.Load(); got.Late != "" {
			t.Errorf("after the loop has turned again: %+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

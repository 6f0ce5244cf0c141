package observe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
)

// TestHubReport checks that workers can use the hub while it reports that the runtime is unavailable,
// or available again. Writing the report to stderr may block.
func TestHubReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := critest.ForTest(t, critest.NoEvents())
		hub := NewHub(rt.Client())
		var downs []time.Time
		hub.Report = func(down time.Time) {
			downs = append(downs, down)
			if !hub.mu.TryLock() {
				t.Errorf("report %d: the hub is locked", len(downs))
				return
			}
			hub.mu.Unlock()
			if up := hub.Down().IsZero(); up != !down.IsZero() {
				t.Errorf("report %d: the runtime answers: %t", len(downs), up)
			}
		}
		end := rt.Fault("ListPodSandbox", critest.Fault{When: critest.Before})
		begun := time.Now()
		hub.Check(t.Context())
		time.Sleep(time.Minute)
		end()
		hub.Check(t.Context())
		if len(downs) != 2 || !downs[0].IsZero() || !downs[1].Equal(begun) {
			t.Errorf("reports %v, want that the runtime does not answer, and that it answers again since %v", downs, begun)
		}
	})
}

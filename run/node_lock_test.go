package run

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/run/store"
)

// TestNodeLockIsWaitedForWithAMessage: a command that waits for the node's lock for
// long names its holder, once (faults.md, F10).
func TestNodeLockIsWaitedForWithAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		held, err := store.Lock(t.Context(), r.layout().NodeLock(), "process 7 (podrun delete x)", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Second, held.Unlock)
		r.mustApply(one("Always"), OutcomeCreated)
		said := slices.DeleteFunc(slices.Clone(r.warnings), func(w string) bool { return !strings.Contains(w, "waiting for process 7 (podrun delete x)") })
		if len(said) != 1 {
			t.Errorf("%q", r.warnings)
		}
		r.mustDelete()
	})
}

package reconcile

import (
	"testing"

	"github.com/podrun/podrun/run/lifecycle"
)

func TestForgetRemoved(t *testing.T) {
	w := &Worker{}
	w.obs = &lifecycle.Observed{Containers: []lifecycle.Container{{ID: "here"}}}
	w.mine = map[string]bool{"here": true, "removed": true}
	w.saidBackOff = map[string]bool{"here": true, "removed": true}
	w.reported.Store("here", true)
	w.reported.Store("removed", true)
	w.forgetRemoved()
	_, here := w.reported.Load("here")
	_, removed := w.reported.Load("removed")
	if !w.mine["here"] || !w.saidBackOff["here"] || !here {
		t.Error("a container that is here was forgotten")
	}
	if w.mine["removed"] || w.saidBackOff["removed"] || removed {
		t.Error("a container that was removed is still known")
	}
}

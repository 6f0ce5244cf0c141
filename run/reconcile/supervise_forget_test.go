package reconcile

import (
	"testing"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
)

func TestForgetRemoved(t *testing.T) {
	w := newWorker(&node.Node{}, &prepare.Plan{}, nil, nil).loop
	w.pod.Observed = &lifecycle.Observed{Containers: []lifecycle.Container{{ID: "here"}}}
	w.mine = map[string]bool{"here": true, "removed": true}
	w.reportedBackOff = map[string]bool{"here": true, "removed": true}
	w.probing.reported.Store("here", true)
	w.probing.reported.Store("removed", true)
	w.forgetRemoved()
	_, here := w.probing.reported.Load("here")
	_, removed := w.probing.reported.Load("removed")
	if !w.mine["here"] || !w.reportedBackOff["here"] || !here {
		t.Error("an existing container was forgotten")
	}
	if w.mine["removed"] || w.reportedBackOff["removed"] || removed {
		t.Error("a container that was removed is still known")
	}
}

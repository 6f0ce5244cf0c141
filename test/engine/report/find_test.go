package report

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestFindByName checks that podrun reads only the named pod from the runtime, so that the duration
// of get, delete and similar commands does not depend on the number of pods on the host.
func TestFindByName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for _, name := range []string{"web", "db", "other"} {
		r.MustApply(rig.PodText(name, "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
	}
	for name, test := range map[string]struct {
		sel      lookup.Selector
		want     int
		filtered bool // true if the lists of sandboxes are restricted to the names
	}{
		"one name":          {lookup.Selector{Namespace: "default", Names: []string{"web"}}, 1, true},
		"two names":         {lookup.Selector{Namespace: "default", Names: []string{"web", "db", "web"}}, 2, true},
		"a missing name":    {lookup.Selector{Namespace: "default", Names: []string{"none"}}, 0, true},
		"another namespace": {lookup.Selector{Namespace: "kube-system", Names: []string{"web"}}, 0, true},
		"any namespace":     {lookup.Selector{Names: []string{"web"}}, 1, false},
		"all pods":          {lookup.Selector{Namespace: "default"}, 3, false},
	} {
		r.Runtime.ForgetCalls()
		known, err := lookup.Find(t.Context(), r.Engine(), test.sel)
		if err != nil || len(known) != test.want {
			t.Errorf("%s: %d pods, %v; want %d", name, len(known), err, test.want)
		}
		lists := 0
		for _, c := range r.Runtime.Calls() {
			list, ok := c.Request.(*runtimeapi.ListPodSandboxRequest)
			if !ok {
				continue
			}
			lists++
			labels := list.GetFilter().GetLabelSelector()
			if filtered := labels[identity.LabelPodName] != "" && labels[identity.LabelPodNamespace] != ""; filtered != test.filtered {
				t.Errorf("%s: a list of the sandboxes with labels %v", name, labels)
			}
		}
		if lists == 0 {
			t.Errorf("%s: no request to the runtime", name)
		}
	}
	r.MustDelete()
}

package prepare

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/host/nodeconfig"
)

const startOrderPod = `initContainers: [{name: i, image: registry.example/setup:1}, {name: j, image: registry.example/setup:1}]
containers: [{name: a, image: registry.example/app:1}, {name: b, image: registry.example/app:1}]`

// TestStartOrder checks the order that the pod's annotation or the node's setting chooses, and which
// containers podrun creates before their turn with it: only with containerd, and in list order.
func TestStartOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runtime, setting, annotation string
		want                         string
		ahead                        bool
	}{
		"default":                       {"containerd", "", "", nodeconfig.StartInOrder, true},
		"setting":                       {"containerd", nodeconfig.StartParallel, "", nodeconfig.StartParallel, false},
		"strict":                        {"containerd", nodeconfig.StartStrict, "", nodeconfig.StartStrict, false},
		"annotation":                    {"containerd", "", nodeconfig.StartParallel, nodeconfig.StartParallel, false},
		"annotation against a setting":  {"containerd", nodeconfig.StartParallel, nodeconfig.StartStrict, nodeconfig.StartStrict, false},
		"annotation back to list order": {"containerd", nodeconfig.StartStrict, nodeconfig.StartInOrder, nodeconfig.StartInOrder, true},
		"CRI-O":                         {"cri-o", "", "", nodeconfig.StartInOrder, false},
	} {
		text := podText("web", "Always", startOrderPod)
		if tc.annotation != "" {
			text = strings.Replace(text, "{name: web}", "{name: web, annotations: {podrun.dev/start-order: "+tc.annotation+"}}", 1)
		}
		facts, settings := testFacts, testSettings()
		facts.Runtime.Name, settings.StartOrder = tc.runtime, tc.setting
		targets, _ := All(Input{Objects: load(t, text), HostState: HostState{Facts: facts}, Settings: settings})
		plan := targets[0].Plan
		if plan.StartOrder != tc.want {
			t.Errorf("%s: the order is %s, want %s", name, plan.StartOrder, tc.want)
		}
		if got := plan.CreatesAhead("a", "b"); got != tc.ahead {
			t.Errorf("%s: b is created before its turn: %v, want %v", name, got, tc.ahead)
		}
		var inits []string
		if tc.ahead {
			inits = []string{"j"}
		}
		if got := slices.Sorted(maps.Keys(plan.InitAhead())); !slices.Equal(got, inits) {
			t.Errorf("%s: init containers %q are created before their turn, want %q", name, got, inits)
		}
		if plan.CreatesAhead("a", "none") || plan.CreatesAhead("none", "a") {
			t.Errorf("%s: a container that does not exist is created", name)
		}
	}
}

// TestUnknownStartOrder checks that the error of an unknown order names the annotation and the orders.
func TestUnknownStartOrder(t *testing.T) {
	t.Parallel()
	text := strings.Replace(podText("web", "Always", startOrderPod), "{name: web}", "{name: web, annotations: {podrun.dev/start-order: fast}}", 1)
	_, problems := All(Input{Objects: load(t, text), HostState: HostState{Facts: testFacts}, Settings: testSettings()})
	for _, p := range problems.Errors() {
		if p.Reason == "StartOrder" && p.Field == "metadata.annotations[podrun.dev/start-order]" && p.Message == `"fast" is not kubelet, strict or parallel` {
			return
		}
	}
	t.Errorf("no error of the annotation: %v", problems)
}

package start

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// startCalls returns the calls that create (C) and start (S) containers, in order.
func startCalls(r *rig.Host) string {
	var out strings.Builder
	for _, name := range r.Runtime.CallNames("CreateContainer", "StartContainer") {
		out.WriteString(name[:1])
	}
	return out.String()
}

const fiveContainers = `containers: [{name: a, image: registry.example/app:1}, {name: b, image: registry.example/app:1},
  {name: c, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ["true"]}}}}, {name: d, image: registry.example/app:1}, {name: e, image: registry.example/app:1}]`

// TestStartOrder checks that containers start in parallel if the setting requests it (run/prepare.TestStartOrder).
// Before a container with a postStart hook is started, the preceding containers must be started.
func TestStartOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"a hook":                 {rig.PodText("web", "Always", fiveContainers), "CCSSCSCCSS"},
		"with a sidecar":         {rig.PodText("web", "Always", fiveContainers, "initContainers: [{name: i, image: registry.example/setup:1, restartPolicy: Always}]"), "CSCCSSCSCCSS"},
		"without any that waits": {rig.PodText("web", "Always", "containers: [{name: a, image: registry.example/app:1}, {name: b, image: registry.example/app:1}]"), "CCSS"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rig.New(t)
			r.Settings.StartOrder = nodeconfig.StartParallel
			r.MustApply(test.text, run.OutcomeCreated)
			if got := startCalls(r); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			r.MustApply(test.text, run.OutcomeUnchanged)
			r.MustDelete()
		})
	}
}

// TestStartOrderFailure checks that containers still run if another container that starts in
// parallel fails, and that the next apply starts the failed container.
func TestStartOrderFailure(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"CreateContainer", "StartContainer"} {
		r := rig.New(t)
		r.Settings.StartOrder = nodeconfig.StartParallel
		r.Runtime.Fault(method, critest.Fault{When: critest.Before, Err: errors.New("full"), Times: 1})
		text := rig.PodText("web", "Always", "containers: [{name: a, image: registry.example/app:1}, {name: b, image: registry.example/app:1}, {name: c, image: registry.example/app:1}]")
		rig.WantErr(t, r.Apply(text).Err, problem.Runtime, "pod default/web: container ", "full")
		started := slices.DeleteFunc(r.Reasons(), func(s string) bool { return !strings.HasPrefix(s, "Started") })
		if len(started) != 2 {
			t.Errorf("%s: %q", method, started)
		}
		r.MustApply(text, run.OutcomeRestarted)
		r.MustDelete()
	}
}

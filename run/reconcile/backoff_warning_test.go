package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
)

// TestWarnBackOff checks that apply reports once how long it waits for a back-off, and that serve and
// commands that wait for more than the start of the pod do not report it.
func TestWarnBackOff(t *testing.T) {
	for _, c := range []struct {
		goal   lifecycle.Goal
		policy policy
		want   int
	}{
		{lifecycle.GoalStarted, waitPolicy(), 1},
		{lifecycle.GoalCompleted, waitPolicy(), 0},
		{lifecycle.GoalNever, policy{retry: true}, 0},
	} {
		var warned problem.List
		id := identity.Pod{Namespace: "shop", Name: "web", UID: "u1"}
		l := newWorker(&node.Node{Warn: func(p problem.List) { warned = append(warned, p...) }}, &prepare.Plan{ID: id, Pod: &corev1.Pod{}}, nil, nil).loop
		l.goal, l.policy = c.goal, c.policy
		for _, run := range []string{"first", "second"} {
			l.pod.Observed = &lifecycle.Observed{Sandboxes: []lifecycle.Sandbox{{ID: "s"}}, Containers: []lifecycle.Container{{ID: run, Name: "app", SandboxID: "s"}}}
			l.emitBackOff(lifecycle.Decision{BackOff: []string{"app"}, Until: time.Now().Add(40 * time.Second)})
		}
		if len(warned) != c.want {
			t.Errorf("goal %s: %v, want %d warnings", c.goal, warned, c.want)
		}
		if c.want > 0 && (!strings.Contains(warned[0].Message, "waiting 40s for the restart back-off of container app") || !strings.Contains(warned[0].Hint, "podrun restart web -n shop")) {
			t.Errorf("%v", warned)
		}
	}
}

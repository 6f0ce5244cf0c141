package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
)

// TestPlanKeepsNoOtherPods checks that a plan does not keep the node's facts about other pods.
// A supervisor keeps the plan as long as the pod exists.
func TestPlanKeepsNoOtherPods(t *testing.T) {
	in := input(corev1.Container{})
	in.Facts.Pods, in.Facts.Listeners = make([]host.Pod, 100), make([]host.Listener, 100)
	in.Facts.Images, in.Facts.UserNS, in.Facts.Unreadable = map[string]host.Image{"a": {}}, map[string]uint32{"u": 1}, []string{"a"}
	f := mustPlan(t, in).in.Facts
	if f.Pods != nil || f.Listeners != nil || f.Images != nil || f.UserNS != nil || f.Unreadable != nil {
		t.Errorf("the plan keeps %+v", f)
	}
	if len(in.Facts.Pods) != 100 {
		t.Error("the caller's facts were changed")
	}
}

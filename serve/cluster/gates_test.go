package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReadinessGate checks that a pod is ready only when a controller has set the condition of its gate.
func TestReadinessGate(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		r.create(bound("web", func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/x"}} }))
		ready := func() corev1.PodCondition {
			p := r.wantPhase("web", corev1.PodRunning)
			return p.Status.Conditions[indexOf(p.Status.Conditions, corev1.PodReady)]
		}
		if c := ready(); c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" || c.LastTransitionTime.IsZero() {
			t.Errorf("without the condition: %+v", c)
		}
		if n := r.warned("no controller"); n != 0 {
			t.Errorf("podrun warns about the controllers of a cluster: %q", r.warnings)
		}
		p := r.pod("web")
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "lb/x", Status: corev1.ConditionTrue})
		if _, err := r.client.CoreV1().Pods("shop").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if c := ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("with the condition: %+v", c)
		}
		if p := r.pod("web"); indexOf(p.Status.Conditions, "lb/x") == len(p.Status.Conditions) {
			t.Error("podrun removed the condition of the gate")
		}
	})
}

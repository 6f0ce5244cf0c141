package shutdown

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// pod returns a pod with the given priority, and a grace period in seconds; -1 means no grace
// period.
func pod(name string, priority int32, grace int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Priority = &priority
	if grace >= 0 {
		p.Spec.TerminationGracePeriodSeconds = &grace
	}
	return p
}

func text(groups []Group) string {
	var out []string
	for _, g := range groups {
		var pods []string
		for _, p := range g.Pods {
			pods = append(pods, fmt.Sprintf("%s %s", p.Pod.Name, p.Grace))
		}
		out = append(out, fmt.Sprintf("%d within %s: %s", g.Priority, g.Period, strings.Join(pods, ", ")))
	}
	return strings.Join(out, "; ")
}

func TestPlan(t *testing.T) {
	critical := int32(2_000_000_000)
	periods := []kubelet.ShutdownGracePeriodByPodPriority{{Priority: 0, ShutdownGracePeriodSeconds: 20}, {Priority: 1000, ShutdownGracePeriodSeconds: 5}, {Priority: critical, ShutdownGracePeriodSeconds: 10}}
	none := pod("none", 0, 30)
	none.Spec.Priority = nil
	for _, c := range []struct {
		name    string
		periods []kubelet.ShutdownGracePeriodByPodPriority
		pods    []*corev1.Pod
		want    string
	}{
		{"no periods", nil, []*corev1.Pod{none}, ""},
		{"no pods", periods, nil, ""},
		{"groups without pods are left out", periods, []*corev1.Pod{pod("high", 1000, 30)}, "1000 within 5s: high 5s"},
		{"lower priorities first, each within the shorter of its periods", periods,
			[]*corev1.Pod{pod("critical", critical+1, 3), none, pod("high", 1500, 5), pod("low", -5, 2), pod("below", 999, -1), pod("now", 1000, 0)},
			"0 within 20s: none 20s, low 2s, below 20s; 1000 within 5s: high 5s, now 0s; 2000000000 within 10s: critical 3s"},
		{"no time at all", []kubelet.ShutdownGracePeriodByPodPriority{{Priority: 0}}, []*corev1.Pod{none}, "0 within 0s: none 0s"},
	} {
		if got := text(Plan(c.periods, c.pods)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

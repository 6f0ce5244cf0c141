package admission

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// TestDevices checks which devices each pod gets, or why podrun refuses the pod.
func TestDevices(t *testing.T) {
	const gpu = "example.com/gpu"
	yes, no := true, false
	pod := func(name, n string) Pod {
		p := plain()
		p.Name, p.UID = name, types.UID("uid-"+name)
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse(n)}
		p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
		return Pod{Pod: p}
	}
	critical := func(p Pod) Pod {
		high := int32(2000000000)
		p.Pod.Spec.Priority = &high
		return p
	}
	has := func(name string, ready bool, devices ...string) host.Pod {
		return host.Pod{Namespace: "default", Name: name, UID: "uid-" + name, Managed: true, Ready: ready, QOSClass: corev1.PodQOSBurstable,
			Requests: corev1.ResourceList{gpu: *resource.NewQuantity(int64(len(devices)), resource.DecimalSI)}, Devices: map[string][]string{"app": devices}}
	}
	outOf := func(want, used, total int) string {
		return fmt.Sprintf("OutOfexample.com/gpu: Node didn't have enough resource: example.com/gpu, requested: %d, used: %d, capacity: %d", want, used, total)
	}
	for _, tc := range []struct {
		name   string
		change func(*host.Facts)
		here   []host.Pod
		pods   []Pod
		want   []string
	}{
		{"none given", func(f *host.Facts) { f.Devices = nil; delete(f.Capacity, gpu) }, nil, []Pod{pod("a", "1")}, []string{outOf(1, 0, 0)}},
		{"in order", nil, nil, []Pod{pod("a", "1"), pod("b", "1")}, []string{"g0", "g1"}},
		{"too many", nil, nil, []Pod{pod("a", "3")}, []string{outOf(3, 0, 2)}},
		{"one too many in a command", nil, nil, []Pod{pod("a", "1"), pod("b", "2")}, []string{"g0", outOf(2, 1, 2)}},
		{"one is held", nil, []host.Pod{has("b", true, "g0")}, []Pod{pod("a", "1")}, []string{"g1"}},
		{"by a stopped pod", nil, []host.Pod{has("b", false, "g0")}, []Pod{pod("a", "1")}, []string{"g0"}},
		{"it runs", nil, []host.Pod{has("a", true, "g1")}, []Pod{pod("a", "1")}, []string{"g1"}},
		{"it was stopped", nil, []host.Pod{has("a", false, "g1")}, []Pod{pod("a", "1")}, []string{"g1"}},
		{"it was stopped, and another has it now", nil, []host.Pod{has("a", false, "g0"), has("b", true, "g0")}, []Pod{pod("a", "1")}, []string{"g1"}},
		{"a critical pod", nil, []host.Pod{has("b", true, "g0"), has("c", true, "g1")}, []Pod{critical(pod("a", "1"))}, []string{"g0 preempts b"}},
		{"not in a specification", func(f *host.Facts) { f.CDI.Devices = []string{"g1"} }, nil, []Pod{pod("a", "1")},
			[]string{"UnexpectedAdmissionError: Allocate failed due to container app requires the device g0, which no CDI specification of /etc/cdi defines, which is unexpected"}},
		{"a runtime without CDI", func(f *host.Facts) { f.Runtime.CDI = &no }, nil, []Pod{pod("a", "1")}, []string{"CDINotSupported: containerd 1.6.20 does not add CDI devices to containers"}},
		{"a runtime that does not tell", func(f *host.Facts) { f.Runtime.CDI = nil }, nil, []Pod{pod("a", "1")}, []string{"g0"}},
		{"counted, but given away under other flags", nil, []host.Pod{func() host.Pod {
			p := has("b", true, "g0", "g1")
			p.Requests = nil
			return p
		}()}, []Pod{pod("a", "1")}, []string{"UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0, which is unexpected"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			facts := largeHost()
			facts.Devices, facts.CDI = map[string][]string{gpu: {"g0", "g1"}}, &host.CDI{Dirs: []string{"/etc/cdi"}, Devices: []string{"g0", "g1"}}
			facts.Capacity[gpu], facts.Runtime.CDI, facts.Pods = resource.MustParse("2"), &yes, tc.here
			if tc.change != nil {
				tc.change(&facts)
			}
			settings := nodeconfig.Default()
			for i, v := range CheckAll(tc.pods, facts, settings, Options{}) {
				got := strings.Join(v.Devices["app"], ",")
				for _, p := range v.Preempts {
					got += " preempts " + p.Name
				}
				for _, p := range v.Problems.Errors() {
					got = p.Reason + ": " + p.Message
				}
				if got != tc.want[i] {
					t.Errorf("pod %d: got %q, want %q", i, got, tc.want[i])
				}
			}
		})
	}
}

package nodeapi

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"
)

// TestRates reads one container repeatedly.
func TestRates(t *testing.T) {
	type reading struct {
		after time.Duration // time since the first reading
		usage uint64        // CPU time in nanoseconds
		start int64
		want  *uint64
	}
	rate := ptr.To[uint64]
	for name, readings := range map[string][]reading{
		"steady":          {{0, 100, 1, nil}, {time.Second, 100 + 5e8, 1, rate(5e8)}, {3 * time.Second, 100 + 5e8 + 4e9, 1, rate(2e9)}},
		"idle":            {{0, 7, 1, nil}, {time.Second, 7, 1, rate(0)}},
		"too soon":        {{0, 0, 1, nil}, {100 * time.Millisecond, 9, 1, nil}, {time.Second, 1e9, 1, rate(1e9)}, {1100 * time.Millisecond, 5e9, 1, rate(1e9)}, {2 * time.Second, 3e9, 1, rate(2e9)}},
		"cached":          {{0, 3, 1, nil}, {0, 3, 1, nil}, {10 * time.Second, 3 + 1e9, 1, rate(1e8)}, {10 * time.Second, 3 + 1e9, 1, rate(1e8)}},
		"too late":        {{0, 0, 1, nil}, {31 * time.Second, 9e9, 1, nil}, {32 * time.Second, 10e9, 1, rate(1e9)}},
		"clock back":      {{time.Minute, 5, 1, nil}, {0, 6, 1, nil}},
		"counter back":    {{0, 5e9, 1, nil}, {time.Second, 1e9, 1, nil}, {2 * time.Second, 2e9, 1, rate(1e9)}},
		"another attempt": {{0, 0, 1, nil}, {time.Second, 5e9, 2, nil}},
	} {
		var r Rates
		for i, in := range readings {
			now := time.Unix(1000, 0).Add(in.after)
			s := &statsapi.Summary{Pods: []statsapi.PodStats{{PodRef: statsapi.PodReference{UID: "u"}, Containers: []statsapi.ContainerStats{{
				Name: "app", StartTime: metav1.NewTime(time.Unix(in.start, 0)),
				CPU: &statsapi.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &in.usage, UsageNanoCores: rate(77)}}}}}}
			// this reading is from a runtime without timestamps
			if i%2 == 1 {
				s.Pods[0].Containers[0].CPU.Time = metav1.NewTime(time.Unix(0, 0))
			}
			r.Fill(s, now)
			if got := s.Pods[0].Containers[0].CPU.UsageNanoCores; (got == nil) != (in.want == nil) || got != nil && *got != *in.want {
				t.Errorf("%s, reading %d: %v, want %v", name, i+1, ptr.Deref(got, 0), ptr.Deref(in.want, 0))
			}
		}
	}
}

// TestRatesForget checks that Rates drops the sample of a removed container. If a container with
// this name exists again later, it must have no rate at first.
func TestRatesForget(t *testing.T) {
	var r Rates
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	usage := func(n int64) *statsapi.CPUStats {
		return &statsapi.CPUStats{Time: metav1.NewTime(at(n)), UsageCoreNanoSeconds: ptr.To(uint64(n) * 1e9)}
	}
	all := func(n int64) *statsapi.Summary {
		return &statsapi.Summary{Node: statsapi.NodeStats{CPU: usage(n)}, Pods: []statsapi.PodStats{{PodRef: statsapi.PodReference{UID: "u"}, CPU: usage(n)}, {PodRef: statsapi.PodReference{UID: "none"}}}}
	}
	r.Fill(all(1), at(1))
	s := all(2)
	r.Fill(s, at(2))
	if *s.Node.CPU.UsageNanoCores != 1e9 || *s.Pods[0].CPU.UsageNanoCores != 1e9 || s.Pods[1].CPU != nil || len(r.last) != 2 {
		t.Errorf("%+v %+v, %d kept", s.Node.CPU, s.Pods, len(r.last))
	}
	r.Fill(&statsapi.Summary{}, at(3))
	if len(r.last) != 0 {
		t.Errorf("%d are kept", len(r.last))
	}
	s = all(4)
	r.Fill(s, at(4))
	if s.Pods[0].CPU.UsageNanoCores != nil {
		t.Errorf("%+v", s.Pods[0].CPU)
	}
}

package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// victim returns a running pod. Its argument has the form NAME CLASS CPU MEMORY.
func victim(text string, change ...func(*host.Pod)) host.Pod {
	f := strings.Fields(text)
	p := host.Pod{Namespace: "default", Name: f[0], UID: "uid-" + f[0], Managed: true, Ready: true, QOSClass: corev1.PodQOSClass(f[1]),
		Requests: corev1.ResourceList{"cpu": resource.MustParse(f[2]), "memory": resource.MustParse(f[3])}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func ofPriority(n int32) func(*host.Pod) { return func(p *host.Pod) { p.Priority = n } }

// The host has 2 CPUs, and 4Gi minus 100Mi of memory. The cases follow the kubelet's
// preemption_test.
func TestPreempt(t *testing.T) {
	const e, b, g = " BestEffort 0 0", " Burstable ", " Guaranteed "
	critical := priority(2000000000)
	none := "UnexpectedAdmissionError: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: "
	for _, tc := range []struct {
		name  string
		here  []host.Pod
		setup []func(*scene)
		// the names of the victims, or the problems
		want string
	}{
		{"room for all", []host.Pod{victim("a" + b + "500m 1Gi")}, []func(*scene){critical, requests("1", "1Gi")}, ""},
		{"one that is not critical", []host.Pod{victim("a" + b + "1500m 1Gi")}, []func(*scene){priority(1999999999), requests("1", "1Gi")},
			"OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"},
		{"turned off", []host.Pod{victim("a" + b + "1500m 1Gi")}, []func(*scene){critical, requests("1", "1Gi"), func(s *scene) { s.settings.Preempt = false }},
			"OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"},
		{"the only one", []host.Pod{victim("a" + b + "1500m 1Gi")}, []func(*scene){critical, requests("1", "1Gi")}, "a"},
		{"burstable before guaranteed", []host.Pod{victim("g" + g + "1 1Gi"), victim("b" + b + "1 1Gi")}, []func(*scene){critical, requests("1", "1Gi")}, "b"},
		{"guaranteed where nothing else suffices", []host.Pod{victim("g" + g + "1500m 1Gi"), victim("b" + b + "500m 1Gi")}, []func(*scene){critical, requests("1", "1Gi")}, "g"},
		{"both", []host.Pod{victim("g" + g + "1 1Gi"), victim("b" + b + "1 1Gi")}, []func(*scene){critical, requests("2", "1Gi")}, "b g"},
		{"the one that suffices, not two", []host.Pod{victim("s" + b + "300m 1Mi"), victim("m" + b + "400m 1Mi"), victim("l" + b + "1 1Mi")}, []func(*scene){critical, requests("1", "1Mi")}, "l"},
		{"of two that suffice the smaller", []host.Pod{victim("l" + b + "1 1Gi"), victim("m" + b + "700m 1Mi")}, []func(*scene){critical, requests("500m", "1Mi")}, "m"},
		{"by memory and by CPU", []host.Pod{victim("mem" + b + "0 3Gi"), victim("cpu" + b + "1900m 0"), victim("bit" + b + "1m 1Mi")}, []func(*scene){critical, requests("1", "2Gi")}, "cpu mem"},
		{"best effort makes no room for CPU", []host.Pod{victim("e" + e), victim("b" + b + "2 1Gi")}, []func(*scene){critical, requests("1", "1Gi")}, "b"},
		{"the number of pods", []host.Pod{victim("b" + b + "1m 1Mi"), victim("e" + e), victim("g" + g + "1m 1Mi")}, []func(*scene){critical, func(s *scene) { s.facts.Capacity["pods"] = resource.MustParse("3") }}, "e"},
		{"of lower priority, critical", []host.Pod{victim("a"+b+"2 1Gi", ofPriority(2000000000))}, []func(*scene){priority(2000001000), requests("1", "1Gi")}, "a"},
		{"of the same priority", []host.Pod{victim("a"+b+"2 1Gi", ofPriority(2000000000))}, []func(*scene){critical, requests("1", "1Gi")}, none + "[(res: cpu, q: 1000), ]"},
		{"not enough by all", []host.Pod{victim("a" + b + "1 1Gi")}, []func(*scene){critical, requests("3", "1Gi")}, none + "[(res: cpu, q: 1000), ]"},
		{"promised room", []host.Pod{victim("a"+b+"1500m 1Gi", func(p *host.Pod) { p.Ready, p.Reserved = false, true })}, []func(*scene){critical, requests("1", "1Gi")}, "a"},
		{"another program's pods are left alone", []host.Pod{victim("x"+b+"2 1Gi", func(p *host.Pod) { p.Managed = false }), victim("a" + b + "1500m 1Gi")}, []func(*scene){critical, requests("1", "1Gi")}, "a"},
		{"another reason too", []host.Pod{victim("a" + b + "1500m 1Gi")}, []func(*scene){critical, requests("1", "1Gi"), selector("disk", "ssd")},
			"NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector: this host lacks the labels disk=ssd\nOutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"},
		{"in place of itself", []host.Pod{victim("a" + b + "1 1Gi"), with(oldSelf, func(p *host.Pod) { p.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")} })}, []func(*scene){critical, requests("1", "1Gi")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &scene{pod: plain(), facts: largeHost(), settings: nodeconfig.Default()}
			s.facts.Pods = tc.here
			for _, f := range tc.setup {
				f(s)
			}
			v := CheckAll([]Pod{{Pod: s.pod}}, s.facts, s.settings, Options{})[0]
			var names, lines []string
			for _, p := range v.Preempts {
				names = append(names, p.Name)
			}
			for _, p := range v.Problems {
				lines = append(lines, p.Reason+": "+p.Message)
			}
			if got := strings.Join(names, " ") + strings.Join(lines, "\n"); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// If a pod of a command frees resources by preemption, the next pod must not get them. Pods of the
// same command must not preempt each other.
func TestPreemptTogether(t *testing.T) {
	arriving := func(name, cpu string, n int32) Pod {
		s := &scene{pod: plain()}
		requests(cpu, "1Mi")(s)
		priority(n)(s)
		s.pod.Name, s.pod.UID = name, types.UID("uid-"+name)
		return Pod{Pod: s.pod}
	}
	facts := largeHost()
	facts.Pods = []host.Pod{victim("here Burstable 1 1Mi")}
	var got []string
	for _, v := range CheckAll([]Pod{arriving("plain", "1", 0), arriving("first", "1", 2000000000), arriving("second", "1", 2000000000)}, facts, nodeconfig.Default(), Options{}) {
		word := "admitted"
		for _, p := range v.Preempts {
			word = "preempts " + p.Name
		}
		for _, p := range v.Problems {
			word = p.Reason
		}
		got = append(got, word)
	}
	if g, want := strings.Join(got, ", "), "admitted, preempts here, UnexpectedAdmissionError"; g != want {
		t.Errorf("got %s, want %s", g, want)
	}
}

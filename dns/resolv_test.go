package dns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
)

var (
	cluster = []string{"10.96.0.10"}
	hosts   = host.ResolvConf{
		Path: "/etc/resolv.conf", Nameservers: []string{"192.0.2.53"},
		Searches: []string{"host.example"}, Options: []string{"ndots:2"},
	}
)

// podWith returns the pod default/web with the given DNS policy and configuration.
func podWith(policy corev1.DNSPolicy, more *corev1.PodDNSConfig) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
		Spec:       corev1.PodSpec{DNSPolicy: policy, DNSConfig: more},
	}
}

// many returns n names: s0, s1 and so on.
func many(n int, suffix string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("s%d%s", i, suffix)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

func TestNew(t *testing.T) {
	hostNet := podWith(corev1.DNSClusterFirst, nil)
	hostNet.Spec.HostNetwork = true
	withHostNet := podWith(corev1.DNSClusterFirstWithHostNet, nil)
	withHostNet.Spec.HostNetwork = true
	ofHosts := Config{Servers: hosts.Nameservers, Searches: hosts.Searches, Options: hosts.Options}
	ofCluster := Config{
		Servers:  cluster,
		Searches: []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local", "host.example"},
		Options:  []string{"ndots:5"},
	}
	for _, tt := range []struct {
		name     string
		pod      *corev1.Pod
		conf     host.ResolvConf
		servers  []string
		domain   string
		want     Config
		warnings []string // reasons of the warnings
	}{
		{"cluster first", podWith(corev1.DNSClusterFirst, nil), hosts, cluster, "cluster.local", ofCluster, nil},
		{"cluster first on the host's network", hostNet, hosts, cluster, "cluster.local", ofHosts, nil},
		{"cluster first with host net", withHostNet, hosts, cluster, "cluster.local", ofCluster, nil},
		{"default", podWith(corev1.DNSDefault, nil), hosts, cluster, "cluster.local", ofHosts, nil},
		{"none", podWith(corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}), hosts, cluster, "cluster.local",
			Config{Servers: []string{"192.0.2.1"}}, nil},
		{"no cluster server", podWith(corev1.DNSClusterFirst, nil), hosts, nil, "cluster.local", ofHosts, []string{event.MissingClusterDNS}},
		{"no cluster domain", podWith(corev1.DNSClusterFirst, nil), hosts, cluster, "",
			Config{Servers: cluster, Searches: []string{"host.example"}, Options: []string{"ndots:5"}}, nil},
		{"no resolv.conf", podWith(corev1.DNSDefault, nil), host.ResolvConf{}, nil, "",
			Config{Servers: []string{"127.0.0.1"}, Searches: []string{"."}}, nil},
		{"addresses are canonical", podWith(corev1.DNSClusterFirst, nil), host.ResolvConf{Path: "x"}, []string{"2001:DB8:0::a"}, "",
			Config{Servers: []string{"2001:db8::a"}, Options: []string{"ndots:5"}}, nil},
		{"merged without copies", podWith(corev1.DNSClusterFirst, &corev1.PodDNSConfig{
			Nameservers: []string{"10.96.0.10", "192.0.2.1"},
			Searches:    []string{"cluster.local", "one.example"},
			Options:     []corev1.PodDNSConfigOption{{Name: "edns0"}, {Name: "ndots", Value: ptr("1")}, {Name: "timeout", Value: ptr("")}},
		}), hosts, cluster, "cluster.local", Config{
			Servers:  []string{"10.96.0.10", "192.0.2.1"},
			Searches: append(append([]string{}, ofCluster.Searches...), "one.example"),
			Options:  []string{"ndots:1", "edns0", "timeout"},
		}, nil},
		{"three servers", podWith(corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}}),
			hosts, nil, "", Config{Servers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3"}}, []string{event.DNSConfigForming}},
		{"32 searches", podWith(corev1.DNSNone, &corev1.PodDNSConfig{Searches: many(33, "")}), hosts, nil, "",
			Config{Searches: many(32, "")}, []string{event.DNSConfigForming}},
		// 31 paths of 64 or 65 characters, with the spaces between them, have 2035 characters. 32
		// paths would have 2101.
		{"2048 characters", podWith(corev1.DNSNone, &corev1.PodDNSConfig{Searches: many(32, strings.Repeat("x", 62))}), hosts, nil, "",
			Config{Searches: many(31, strings.Repeat("x", 62))}, []string{event.DNSConfigForming}},
		{"a path of 254 characters", podWith(corev1.DNSNone, &corev1.PodDNSConfig{Searches: []string{strings.Repeat("x", 254), "a", strings.Repeat("y", 253)}}),
			hosts, nil, "", Config{Searches: []string{"a", strings.Repeat("y", 253)}}, []string{event.DNSConfigForming}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, warnings := New(tt.pod, tt.conf, tt.servers, tt.domain)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			var reasons []string
			for _, w := range warnings {
				reasons = append(reasons, w.Reason)
			}
			if diff := cmp.Diff(tt.warnings, reasons); diff != "" {
				t.Errorf("warnings: -want +got:\n%s", diff)
			}
		})
	}
}

func TestWarningsSayWhatIsApplied(t *testing.T) {
	pod := podWith(corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"}})
	_, warnings := New(pod, hosts, nil, "")
	want := "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3"
	if len(warnings) != 1 || warnings[0].Message != want {
		t.Errorf("got %q, want %q", warnings, want)
	}
}

// TestNewDoesNotChangeItsInputs checks that New does not change its inputs, because two pods of one
// host would otherwise affect each other.
func TestNewDoesNotChangeItsInputs(t *testing.T) {
	conf := host.ResolvConf{Path: "x", Nameservers: make([]string, 1, 8), Searches: make([]string, 1, 8), Options: make([]string, 1, 8)}
	more := &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}, Searches: []string{"a"}, Options: []corev1.PodDNSConfigOption{{Name: "edns0"}}}
	first, _ := New(podWith(corev1.DNSDefault, more), conf, nil, "")
	more.Nameservers[0], more.Searches[0], more.Options[0].Name = "192.0.2.2", "b", "rotate"
	if second, _ := New(podWith(corev1.DNSDefault, more), conf, nil, ""); second.Servers[1] != "192.0.2.2" {
		t.Fatalf("second pod: %v", second)
	}
	if first.Servers[1] != "192.0.2.1" || first.Searches[1] != "a" || first.Options[1] != "edns0" {
		t.Errorf("the first pod's configuration changed: %v", first)
	}
}

// TestSearchLine checks that the search line may have 2048 characters, including spaces, but
// not one more (KEP-2595).
func TestSearchLine(t *testing.T) {
	// 8 paths of 227 characters and 8 spaces have 1824 characters.
	paths := make([]string, 9)
	for i := range paths {
		paths[i] = strings.Repeat(string(rune('a'+i)), 227)
	}
	for length, fit := range map[int]int{224: 9, 225: 8} {
		paths[8] = strings.Repeat("z", length)
		if got := fitSearches(paths); len(got) != fit {
			t.Errorf("a line of %d characters: %d paths, want %d", len(strings.Join(paths, " ")), len(got), fit)
		}
	}
}

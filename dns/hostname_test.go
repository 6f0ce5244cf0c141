package dns

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHostname(t *testing.T) {
	long := strings.Repeat("a", 70)
	for _, tt := range []struct {
		name     string
		podName  string
		spec     corev1.PodSpec
		override bool
		want     Name
		wantErr  string
	}{
		{name: "the pod's name", podName: "web", want: Name{Host: "web", Kernel: "web"}},
		{name: "spec.hostname", podName: "web", spec: corev1.PodSpec{Hostname: "h"}, want: Name{Host: "h", Kernel: "h"}},
		{name: "63 characters", podName: long, want: Name{Host: long[:63], Kernel: long[:63]}},
		// kubernetes issue 36951: a truncated name must not end in - or .
		{name: "cut at a dash", podName: strings.Repeat("a", 60) + ".-.bcd", want: Name{Host: long[:60], Kernel: long[:60]}},
		{name: "nothing left", podName: strings.Repeat("-", 70), wantErr: "has no valid hostname"},
		{name: "subdomain", podName: "web", spec: corev1.PodSpec{Subdomain: "s"},
			want: Name{Host: "web", Domain: "s.ns.svc.cluster.local", Kernel: "web"}},
		{name: "FQDN", podName: "web", spec: corev1.PodSpec{Subdomain: "s", SetHostnameAsFQDN: ptr(true)},
			want: Name{Host: "web", Domain: "s.ns.svc.cluster.local", Kernel: "web.s.ns.svc.cluster.local"}},
		{name: "FQDN without a subdomain", podName: "web", spec: corev1.PodSpec{SetHostnameAsFQDN: ptr(true)},
			want: Name{Host: "web", Kernel: "web"}},
		// KEP-1797: 64 characters fit into the kernel's nodename, 65 do not.
		{name: "FQDN of 64", podName: strings.Repeat("a", 41), spec: corev1.PodSpec{Subdomain: "s", SetHostnameAsFQDN: ptr(true)},
			want: Name{Host: long[:41], Domain: "s.ns.svc.cluster.local", Kernel: long[:41] + ".s.ns.svc.cluster.local"}},
		{name: "FQDN of 65", podName: strings.Repeat("a", 42), spec: corev1.PodSpec{Subdomain: "s", SetHostnameAsFQDN: ptr(true)},
			wantErr: "is too long (64 characters is the max, 65 characters requested)"},
		{name: "override", podName: "web", spec: corev1.PodSpec{HostnameOverride: ptr("a.b.c"), Subdomain: "s"}, override: true,
			want: Name{Host: "a.b.c", Kernel: "a.b.c"}},
		{name: "override without the gate", podName: "web", spec: corev1.PodSpec{HostnameOverride: ptr("a.b.c")},
			want: Name{Host: "web", Kernel: "web"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tt.podName}, Spec: tt.spec}
			got, err := Hostname(pod, "cluster.local", tt.override)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("got %v, want an error with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// TestHostnameWithoutClusterDomain checks that the name does not end with a dot if there is no
// cluster domain.
func TestHostnameWithoutClusterDomain(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.PodSpec{Subdomain: "s"}}
	if got, err := Hostname(pod, "", true); err != nil || got.FQDN() != "web.s.ns.svc" {
		t.Errorf("got %q, %v", got.FQDN(), err)
	}
}

func TestEtcHosts(t *testing.T) {
	aliases := []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"db.example", "db"}}}
	name := Name{Host: "web", Domain: "s.ns.svc.c"}
	for _, tt := range []struct {
		name string
		spec corev1.PodSpec
		ips  []string
		// the text after the managed header, or the whole file if there is no such header
		want string
	}{
		{"two addresses", corev1.PodSpec{}, []string{"10.0.0.1", "fd00::1"},
			managedHosts + "10.0.0.1\tweb.s.ns.svc.c\tweb\nfd00::1\tweb.s.ns.svc.c\tweb\n"},
		{"aliases", corev1.PodSpec{HostAliases: aliases}, nil,
			managedHosts + "\n# Entries added by HostAliases.\n192.0.2.7\tdb.example\tdb\n"},
		{"host network", corev1.PodSpec{HostNetwork: true, HostAliases: aliases}, nil,
			"# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n# Entries added by HostAliases.\n192.0.2.7\tdb.example\tdb\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := EtcHosts(&corev1.Pod{Spec: tt.spec}, name, tt.ips, "127.0.0.1 localhost\n"); got != tt.want {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

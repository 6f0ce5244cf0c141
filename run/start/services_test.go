package start

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/service"
	"github.com/podrun/podrun/volume"
)

func recorded(namespace, name, ip string) store.ServiceRecord {
	return store.ServiceRecord{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP"}}}}}
}

func TestServiceEnv(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	if env, err := serviceEnv(layout, object, nil); err != nil || env != nil {
		t.Errorf("without Services: %v, %v", env, err)
	}
	broken := recorded("shop", "broken", "10.0.0.3")
	broken.Service.Spec.Ports = nil
	for _, r := range []store.ServiceRecord{recorded("shop", "web-app", "10.0.0.1"), recorded("other", "db", "10.0.0.2"), recorded("shop", "headless", "None"), broken} {
		if err := store.WriteService(layout, r); err != nil {
			t.Fatal(err)
		}
	}
	env, err := serviceEnv(layout, object, nil)
	if err != nil || !slices.Contains(env, corev1.EnvVar{Name: "WEB_APP_SERVICE_HOST", Value: "10.0.0.1"}) || !slices.Contains(env, corev1.EnvVar{Name: "WEB_APP_SERVICE_PORT_HTTP", Value: "80"}) {
		t.Errorf("%v, %v", env, err)
	}
	for _, v := range env {
		if !strings.HasPrefix(v.Name, "WEB_APP_") {
			t.Errorf("%s=%s", v.Name, v.Value)
		}
	}
	off := false
	object.Spec.EnableServiceLinks = &off
	if env, err := serviceEnv(layout, object, nil); err != nil || len(env) > 0 {
		t.Errorf("enableServiceLinks is false: %v, %v", env, err)
	}
}

func TestServiceNamesAtStart(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p := pod.New(&node.Node{}, &prepare.Plan{Pod: object, Layout: layout, ID: identity.Pod{Namespace: "shop", Name: "web", UID: "u"}})
	const file = "127.0.0.1\tlocalhost\n"
	written := func() (text string) {
		if err := withServiceNames(context.Background(), p, file, func(s string) error { text = s; return nil }); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if text := written(); text != file {
		t.Errorf("without Services: %s", text)
	}
	if _, err := os.Stat(filepath.Join(layout.RootDir, "locks")); err == nil {
		t.Error("without Services, a lock is taken")
	}
	if err := store.WriteService(layout, recorded("shop", "new", "10.0.0.1")); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteServiceNames(layout, []service.Name{}); err != nil {
		t.Fatal(err)
	}
	// The record of this Service is newer than the last synchronization.
	if text := written(); !strings.Contains(text, "10.0.0.1\tnew.shop.svc.cluster.local\tnew.shop.svc\tnew.shop\tnew\n") {
		t.Errorf("%s", text)
	}
}

// TestServiceNamesRequireClusterDNS checks that only pods whose effective DNS policy is ClusterFirst get
// names of Services, as in a cluster: a Service github in a namespace com must not replace github.com.
func TestServiceNamesRequireClusterDNS(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	if err := store.WriteService(layout, recorded("com", "github", "10.0.0.1")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		policy  corev1.DNSPolicy
		hostNet bool
		file    string
		want    bool
	}{
		{policy: corev1.DNSClusterFirst, want: true},
		{policy: corev1.DNSClusterFirstWithHostNet, want: true},
		{policy: corev1.DNSClusterFirstWithHostNet, hostNet: true, want: true},
		{policy: corev1.DNSClusterFirst, hostNet: true},
		{policy: corev1.DNSDefault},
		{policy: corev1.DNSDefault, hostNet: true},
		{policy: corev1.DNSNone},
		{policy: corev1.DNSNone, hostNet: true},
		{policy: corev1.DNSClusterFirst, file: strings.Repeat("#", volume.MaxHosts+1)},
	} {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{DNSPolicy: tt.policy, HostNetwork: tt.hostNet}}
		p := pod.New(&node.Node{}, &prepare.Plan{Pod: object, Layout: layout, ID: identity.Pod{Namespace: "shop", Name: "web", UID: "u"}})
		var text string
		if err := withServiceNames(t.Context(), p, tt.file, func(s string) error { text = s; return nil }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text, "\tgithub.com"); got != tt.want || !strings.HasPrefix(text, tt.file) {
			t.Errorf("%s, hostNetwork %v, %d bytes: names %v, want %v", tt.policy, tt.hostNet, len(tt.file), got, tt.want)
		}
	}
}

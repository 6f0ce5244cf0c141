package serve

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// TestUnserved checks that a Service without endpoints is reported once, after unservedAfter, and when it has one again.
func TestUnserved(t *testing.T) {
	var warned []string
	s := newServices(&node.Node{Warn: func(l problem.List) { warned = append(warned, l.String()) }}, func() {})
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	without := []*corev1.Service{web}
	begun := time.Now()
	for _, at := range []time.Duration{0, unservedAfter - 1, unservedAfter, 2 * unservedAfter} {
		s.noteUnserved(without, begun.Add(at))
		if got := len(warned); (got == 1) != (at >= unservedAfter) || (s.note() != "") != (at >= unservedAfter) {
			t.Errorf("after %s: %d warnings, note %q", at, got, s.note())
		}
	}
	s.noteUnserved(nil, begun)
	if len(warned) != 2 || !strings.Contains(warned[0], "service shop/web: no pod that it selects is ready") || !strings.Contains(warned[1], "has an endpoint again") || s.note() != "" {
		t.Errorf("%q, note %q", warned, s.note())
	}
}

// TestServicesThatDoNotWork checks that /readyz names Services that this host cannot provide, until they are
// changed, and that such a Service does not affect the others.
func TestServicesThatDoNotWork(t *testing.T) {
	settings := nodeconfig.Default()
	settings.RootDir = t.TempDir()
	warned := ""
	s := newServices(&node.Node{Settings: settings, Warn: func(l problem.List) { warned += l.String() + "\n" }}, func() {})
	one := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	large := one("large")
	large.Annotations = map[string]string{"text": strings.Repeat("x", 1<<20)}
	want := &source.Desired{Shared: &manifest.Objects{}}
	want.Shared.Services = map[string]*corev1.Service{"shop/large": large, "shop/web": one("web")}
	s.apply(t.Context(), &source.Snapshot{}, want)
	if why := s.problem(); !strings.Contains(why, "service shop/large: has ") || strings.Contains(why, "shop/web") || !strings.Contains(warned, "shop/large") {
		t.Errorf("%q, warnings %q; want that the Service shop/large is too large", why, warned)
	}
	if records, _, err := store.ReadServices(settings.Layout()); err != nil || len(records) != 1 || records[0].Service.Name != "web" {
		t.Errorf("%v, %v; want the other Service", records, err)
	}
	omitted := problem.List{{Object: "service shop/ports", Message: "has 4001 ports", Warning: true}}
	for range 2 {
		s.synchronized(t.Context(), omitted, nil)
	}
	if why := s.problem(); !strings.Contains(why, "; service shop/ports: has 4001 ports") || strings.Count(warned, "4001 ports") != 1 {
		t.Errorf("%q, warnings %q; want the Service shop/ports, too, and one warning", why, warned)
	}
	s.synchronized(t.Context(), nil, errors.New("no rules"))
	if why := s.problem(); !strings.Contains(why, "shop/ports") || !strings.HasSuffix(why, "; no rules") {
		t.Errorf("%q; want that the last synchronization failed", why)
	}
	s.synchronized(t.Context(), nil, nil)
	delete(want.Shared.Services, "shop/large")
	s.apply(t.Context(), &source.Snapshot{}, want)
	if why := s.problem(); why != "" {
		t.Errorf("%q after the Services were changed", why)
	}
}

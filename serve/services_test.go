package serve

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// TestUnserved checks that a Service without endpoints has one event, after unservedAfter, and another one when a pod
// is ready again, also if serve was restarted in between. The events are deleted with the Service.
func TestUnserved(t *testing.T) {
	settings := nodeconfig.Default()
	settings.RootDir = t.TempDir()
	layout, web := settings.Layout(), identity.Pod{Namespace: "shop", Name: "web"}
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	if err := store.WriteService(layout, store.ServiceRecord{Service: object}); err != nil {
		t.Fatal(err)
	}
	var emitted []string
	var s *services
	start := func() *services {
		return newServices(&node.Node{Settings: settings, Emit: func(e event.Event) {
			if !s.mu.TryLock() {
				t.Fatal("/readyz waits while podrun writes an event")
			}
			s.mu.Unlock()
			kind, name := e.Object()
			emitted = append(emitted, e.Type+" "+e.Reason+" "+kind+" "+e.Namespace+"/"+name+": "+e.Message)
		}, Warn: func(l problem.List) { t.Error(l) }}, func() {})
	}
	check := func(when string, want ...string) {
		t.Helper()
		journal, err := store.ReadServiceJournal(layout, web)
		if err != nil || len(journal) != len(want) || !slices.Equal(emitted, want) {
			t.Errorf("%s: journal %v (%v), emitted %q, want %q", when, journal, err, emitted, want)
		}
	}
	const unready = "Warning NoEndpoints Service shop/web: no pod that it selects is ready, so connections to it fail; run 'podrun get pods -n shop -l app=web'"
	const ready = "Normal EndpointsReady Service shop/web: a pod that it selects is ready"
	without, begun := []*corev1.Service{object}, time.Now()
	s = start()
	for _, at := range []time.Duration{0, unservedAfter - 1} {
		s.noteUnserved(without, begun.Add(at))
	}
	check("before unservedAfter")
	for _, at := range []time.Duration{unservedAfter, 2 * unservedAfter} {
		s.noteUnserved(without, begun.Add(at))
	}
	check("without an endpoint", unready)
	if s.note() != "no pod is ready for shop/web" {
		t.Errorf("note %q", s.note())
	}
	s = start()
	s.noteUnserved(without, begun)
	check("after a restart", unready)
	s = start()
	s.noteUnserved(nil, begun)
	s.noteUnserved(nil, begun)
	check("with an endpoint after a restart", unready, ready)
	if s.note() != "" {
		t.Errorf("note %q", s.note())
	}
	s.noteUnserved(without, begun)
	s.noteUnserved(without, begun.Add(unservedAfter))
	if err := store.RemoveService(layout, "shop", "web"); err != nil {
		t.Fatal(err)
	}
	emitted = nil
	s.noteUnserved(nil, begun)
	check("deleted")
	if err := store.RemoveServiceState(layout); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(layout.ServiceEvents()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the journals remains: %v", err)
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

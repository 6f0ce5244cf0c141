package nodeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/patience"
)

// testBackend returns a backend of n pods with one container each.
func testBackend(n int) Backend {
	state := State{Known: map[string]bool{}, RunningPods: n, Rejected: 1, Containers: map[string]int{"running": n, "exited": 1}, Restarts: map[ContainerName]uint32{},
		Pods: map[string]int{"supervised": n}, Sources: []Source{{Name: "/etc/m", State: "Present", Pods: n}, {Name: "https://h/x", State: "Unreachable", Why: "refused"}, {Name: "https://h/x"}}}
	for i := range n {
		state.Known[fmt.Sprint("uid", i)] = true
		state.Restarts[ContainerName{"default", fmt.Sprint("pod", i), "app"}] = 2
	}
	state.Restarts[ContainerName{"default", "bad\xff", "app"}] = 1
	b := Backend{
		Health:  func() []Check { return append(SourceCheck(state.Sources[:1]), Check{Name: "workers", Live: true}) },
		Sources: func() []Source { return state.Sources },
		Pods: func(context.Context) (*corev1.PodList, error) {
			return &corev1.PodList{Items: make([]corev1.Pod, n)}, nil
		},
		Stats: func(context.Context) (*statsapi.Summary, error) { return Summarize(testStats()), nil },
		Events: func(_ context.Context, namespace, _ string) ([]event.Event, error) {
			return []event.Event{{Namespace: namespace, Pod: "old", Reason: "Started"}}, nil
		},
		Logs: func(ctx context.Context, r LogRequest, w io.Writer) error {
			if r.Pod == "none" {
				return &problem.Error{Kind: problem.Failed, Object: "pod none", Err: errors.New("not found")}
			}
			_, err := fmt.Fprintf(w, "%s/%s/%s follow=%t\n", r.Namespace, r.Pod, r.Container, r.Follow)
			if r.Follow {
				<-ctx.Done()
			}
			return err
		},
		Feed: &Feed{},
	}
	b.Metrics = NewMetrics("node-a", func() State { return state })
	for i := range n {
		b.Metrics.Probed(ProbeResult{ContainerName{"default", fmt.Sprint("pod", i), "app"}, fmt.Sprint("uid", i), "Readiness", "successful"})
	}
	return b
}

// serveSocket serves a backend on a socket, and returns a client connected to it.
func serveSocket(t testing.TB, b Backend) (*Server, *http.Client, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s", "podrun.sock")
	l, err := ListenUnix(Socket{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(b)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return DialUnix(ctx, path) }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket was left behind")
		}
	})
	return s, patience.Client(t, transport), path
}

func get(t testing.TB, c *http.Client, path string) (int, string) {
	t.Helper()
	resp, err := c.Get("http://podrun" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestEndpoints(t *testing.T) {
	_, c, path := serveSocket(t, testBackend(3))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	for _, test := range []struct {
		path string
		code int
		want string
	}{
		{"/healthz", 200, "ok"},
		{"/readyz?verbose", 200, "[+]source /etc/m ok\n[+]workers ok\nreadyz check passed"},
		{"/pods", 200, `"items":[{`},
		{"/pods/", 200, `"items":[{`},
		{"/sources", 200, `"why":"refused"`},
		{"/stats/summary", 200, `"podRef":{"name":"web"`},
		{"/events", 200, `"pod":"old"`},
		{"/containerLogs/ns/web/app", 200, "ns/web/app follow=false\n"},
		{"/containerLogs/ns/none/app", 404, "not found"},
		{"/containerLogs/ns/web/app?tailLines=-1", 400, "tailLines"},
		{"/containerLogs/ns/web/app?follow=perhaps", 400, "follow"},
		{"/containerLogs/ns/web/app?sinceTime=now", 400, "sinceTime"},
		{"/exec/ns/web/app", 400, "the request must upgrade the connection"},
		{"/pods/x", 404, ""},
	} {
		if code, body := get(t, c, test.path); code != test.code || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %q, want %d %q", test.path, code, body, test.code, test.want)
		}
	}
	resp, err := c.Post("http://podrun/pods", "text/plain", strings.NewReader("x"))
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v %v", resp, err)
	}
}

// TestReadOnlyAPI checks that no client can run commands in a container through the API if
// readOnlyAPI is set.
func TestReadOnlyAPI(t *testing.T) {
	b := testBackend(1)
	b.ReadOnly = true
	_, c, _ := serveSocket(t, b)
	for _, path := range []string{"/exec/ns/web/app?command=id&output=1", "/attach/ns/web/app?output=1", "/portForward/ns/web"} {
		if code, body := get(t, c, path); code != http.StatusForbidden || !strings.Contains(body, "readOnlyAPI") {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	if code, _ := get(t, c, "/containerLogs/ns/web/app"); code != http.StatusOK {
		t.Errorf("logs: %d", code)
	}
}

func TestUnhealthy(t *testing.T) {
	b := testBackend(1)
	b.Health = func() []Check {
		return append(SourceCheck([]Source{{Name: "https://h/x", Why: "the server\nanswered 500"}, {Name: "/d", Problems: []string{"bad"}}}),
			Check{Name: "runtime", Reason: "away"}, Check{Name: "workers", Live: true})
	}
	_, c, _ := serveSocket(t, b)
	code, body := get(t, c, "/readyz")
	want := "[-]source https://h/x failed: the server answered 500\n[-]source /d failed: bad\n[-]runtime failed: away\n[+]workers ok\nreadyz check failed\n"
	if code != 503 || body != want {
		t.Errorf("%d %q", code, body)
	}
	if code, body := get(t, c, "/healthz"); code != 200 || body != "ok" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if checks := SourceCheck(nil); len(checks) != 1 || checks[0].Reason == "" {
		t.Errorf("sources that were not read: %v", checks)
	}
}

// parse parses metrics with Prometheus's own parser.
func parse(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestMetrics(t *testing.T) {
	b := testBackend(2)
	m := b.Metrics
	m.RuntimeCall("RunPodSandbox", 2*time.Second, nil)
	m.RuntimeCall("ListPodSandbox", time.Millisecond, errors.New("x"))
	m.Relisted(time.Unix(1000, 0), time.Millisecond, 2*time.Second)
	m.Pulled(200<<20, 3*time.Second)
	m.RolledBack("CrashLoopBackOff")
	m.RolledBack("CrashLoopBackOff")
	begun := time.Now()
	for n := range maxPending {
		m.PodBegun(identity.Pod{Name: strconv.Itoa(n)}, begun) // never starts
	}
	m.PodBegun(identity.Pod{Namespace: "default", Name: "pod0", UID: "u"}, begun)
	for i, path := range []string{"spec.initContainers{a}", "spec.containers{b}", "spec.containers{c}"} {
		m.Event(event.Event{Type: event.Normal, Reason: event.StartedContainer, Namespace: "default", Pod: "pod0", FieldPath: path, Time: begun.Add(time.Duration(i+1) * time.Second)})
	}
	m.Probed(ProbeResult{ContainerName{"default", "gone", "app"}, "gone", "Liveness", "failed"})
	_, c, _ := serveSocket(t, b)
	code, body := get(t, c, "/metrics")
	families := parse(t, body)
	value := func(name string, labels ...string) float64 {
		t.Helper()
	next:
		for _, one := range families[name].GetMetric() {
			have := map[string]string{}
			for _, l := range one.Label {
				have[l.GetName()] = l.GetValue()
			}
			for i := 0; i < len(labels); i += 2 {
				if have[labels[i]] != labels[i+1] {
					continue next
				}
			}
			if h := one.Histogram; h != nil {
				return h.GetSampleSum()
			}
			return one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
		t.Errorf("no metric %s %v", name, labels)
		return -1
	}
	for _, test := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{2, "kubelet_running_pods", nil},
		{2, "kubelet_running_containers", []string{"container_state", "running"}},
		{2, "kubelet_pod_start_duration_seconds", nil},
		{2, "kubelet_started_containers_total", []string{"container_type", "container"}},
		{1, "kubelet_started_containers_total", []string{"container_type", "init_container"}},
		{1, "kubelet_started_pods_total", nil},
		{2, "kubelet_runtime_operations_duration_seconds", []string{"operation_type", "run_podsandbox"}},
		{1, "kubelet_runtime_operations_errors_total", []string{"operation_type", "list_podsandbox"}},
		{3, "kubelet_image_pull_duration_seconds", []string{"image_size_in_bytes", "100MB-500MB"}},
		{2, "kubelet_pleg_relist_interval_seconds", nil},
		{1000, "kubelet_pleg_last_seen_seconds", nil},
		{1, "prober_probe_total", []string{"probe_type", "Readiness", "result", "successful", "pod", "pod1", "pod_uid", "uid1"}},
		{2, "podrun_container_restarts_total", []string{"pod", "pod0"}},
		{1, "podrun_source_up", []string{"source", "/etc/m"}},
		{0, "podrun_source_up", []string{"source", "https://h/x"}},
		{1, "podrun_runtime_up", nil},
		{2, "podrun_rollbacks_total", []string{"reason", "CrashLoopBackOff"}},
		{1, "podrun_rejected_definitions", nil},
		{1, "kubelet_node_name", []string{"node", "node-a"}},
	} {
		if got := value(test.name, test.labels...); code != 200 || got != test.want {
			t.Errorf("%s %v: %v, want %v", test.name, test.labels, got, test.want)
		}
	}
	if strings.Contains(body, `pod="gone"`) {
		t.Error("the series of a removed pod continues")
	}
	if families["go_goroutines"] == nil || families["process_resident_memory_bytes"] == nil {
		t.Error("no metrics of the process")
	}
}

func TestResourceMetrics(t *testing.T) {
	b := testBackend(1)
	_, c, _ := serveSocket(t, b)
	_, body := get(t, c, "/metrics/resource")
	families := parse(t, body)
	if got := families["pod_cpu_usage_seconds_total"].GetMetric()[0].GetCounter().GetValue(); got != 8 {
		t.Errorf("pod_cpu_usage_seconds_total %v", got)
	}
	if got := families["resource_scrape_error"].GetMetric()[0].GetGauge().GetValue(); got != 0 {
		t.Errorf("resource_scrape_error %v", got)
	}
	b.Stats = func(context.Context) (*statsapi.Summary, error) { return nil, errors.New("away") }
	_, c, _ = serveSocket(t, b)
	code, body := get(t, c, "/metrics/resource")
	if got := parse(t, body)["resource_scrape_error"].GetMetric()[0].GetGauge().GetValue(); code != 200 || got != 1 {
		t.Errorf("resource_scrape_error for a runtime that does not answer: %v", got)
	}
	if code, _ := get(t, c, "/stats/summary"); code != 500 {
		t.Errorf("/stats/summary: %d", code)
	}
}

func TestWatchEvents(t *testing.T) {
	b := testBackend(1)
	s, c, _ := serveSocket(t, b)
	resp, err := c.Get("http://podrun/events?watch=true&namespace=a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() (e event.Event) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &e) != nil {
			t.Fatalf("line %q: %v", lines.Text(), lines.Err())
		}
		return e
	}
	if e := next(); e.Pod != "old" {
		t.Errorf("first %v", e)
	}
	// This event is already in the journal.
	b.Feed.Emit(event.Event{Namespace: "a", Pod: "old", Reason: "Started"})
	b.Feed.Emit(event.Event{Namespace: "b", Pod: "other"})
	b.Feed.Emit(event.Event{Namespace: "a", Pod: "new"})
	if e := next(); e.Pod != "new" {
		t.Errorf("then %v", e)
	}
	s.Close()
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
}

// TestFeedNeverWaits checks that a watcher that does not read cannot block the workers, which emit
// the events.
func TestFeedNeverWaits(t *testing.T) {
	var f Feed
	slow, fast := f.Watch(), f.Watch()
	for range feedBuffer + 1 {
		f.Emit(event.Event{})
		<-fast.C
	}
	n := 0
	// The loop ends, because the feed has dropped the watcher.
	for range slow.C {
		n++
	}
	if n != feedBuffer {
		t.Errorf("%d events, want %d", n, feedBuffer)
	}
	slow.Stop()
	fast.Stop()
	for i := range maxWatchers + 1 {
		if w := f.Watch(); (w == nil) != (i == maxWatchers) {
			t.Errorf("watcher %d: %v", i, w)
		}
	}
}

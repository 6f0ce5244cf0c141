package probe

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serve starts a server, and returns the plan of a probe that calls the server.
func serve(t *testing.T, tls bool, handler http.HandlerFunc) Plan {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	scheme := corev1.URISchemeHTTP
	if tls {
		scheme = corev1.URISchemeHTTPS
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	return httpPlan(corev1.HTTPGetAction{Scheme: scheme, Port: intstr.FromInt(port), Path: "/start?x=1"})
}

func httpPlan(get corev1.HTTPGetAction) Plan {
	c := &corev1.Container{Name: "app", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &get}, TimeoutSeconds: 10}}
	plan, _ := New(testID, c, Readiness)
	return plan
}

var local = Target{PodIP: "127.0.0.1"}

func TestHTTPStatus(t *testing.T) {
	for code, want := range map[int]Result{
		200: {Success, "body"}, 204: {Success, ""}, 299: {Success, "body"},
		304: {Warning, "Probe terminated redirects, Response body: "}, 399: {Warning, "Probe terminated redirects, Response body: body"},
		// https://github.com/kubernetes/kubernetes/issues/99425: the message must never contain the
		// body of a failed response.
		400: {Failure, "HTTP probe failed with statuscode: 400"}, 500: {Failure, "HTTP probe failed with statuscode: 500"},
	} {
		hits := 0
		plan := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { hits++; w.WriteHeader(code); io.WriteString(w, "body") })
		got, err := Run(t.Context(), plan, local)
		if err != nil || got != want || hits != 1 {
			t.Errorf("%d: %+v %v after %d requests", code, got, err, hits)
		}
	}
}

func TestHTTPSendsWhatTheKubeletSends(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []corev1.HTTPHeader
		want    http.Header
		host    string
	}{
		{"defaults", nil, http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}, "Connection": {"close"}}, "127.0.0.1"},
		{"own", []corev1.HTTPHeader{{Name: "user-agent", Value: "me"}, {Name: "accept", Value: ""}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Host", Value: "v.example"}},
			http.Header{"User-Agent": {"me"}, "X-A": {"1", "2"}, "Connection": {"close"}}, "v.example"},
	} {
		var got *http.Request
		plan := serve(t, false, func(_ http.ResponseWriter, r *http.Request) { got = r })
		plan = httpPlan(corev1.HTTPGetAction{Port: intstr.FromInt(plan.HTTP.Port), Path: plan.HTTP.Path, HTTPHeaders: test.headers})
		if result, err := Run(t.Context(), plan, local); err != nil || result.Outcome != Success {
			t.Fatalf("%s: %v %v", test.name, result, err)
		}
		if diff := cmp.Diff(test.want, got.Header); diff != "" || got.Method != "GET" || got.RequestURI != "/start?x=1" {
			t.Errorf("%s: %s %s %s", test.name, got.Method, got.RequestURI, diff)
		}
		if host, _, _ := strings.Cut(got.Host, ":"); host != test.host {
			t.Errorf("%s: Host %s, want %s", test.name, got.Host, test.host)
		}
	}
}

func TestHTTPUsesNoProxy(t *testing.T) {
	proxied := 0
	proxy := serve(t, false, func(http.ResponseWriter, *http.Request) { proxied++ })
	t.Setenv("HTTP_PROXY", fmt.Sprintf("http://127.0.0.1:%d", proxy.HTTP.Port))
	plan := httpPlan(corev1.HTTPGetAction{Host: "name.invalid", Port: intstr.FromInt(80)})
	if got, err := Run(t.Context(), plan, local); err != nil || got.Outcome != Failure || proxied != 0 {
		t.Errorf("%v %v, %d requests to the proxy", got, err, proxied)
	}
}

func TestHTTPRedirects(t *testing.T) {
	elsewhere := 0
	other := serve(t, false, func(http.ResponseWriter, *http.Request) { elsewhere++ })
	for _, test := range []struct {
		name, to string // target of the redirect from /start
		want     Result
		hits     int
	}{
		{"same host", "/end", Result{Success, "end"}, 2},
		{"same host that fails", "/fail", Result{Failure, "HTTP probe failed with statuscode: 500"}, 2},
		{"same host, other port", fmt.Sprintf("http://127.0.0.1:%d/", other.HTTP.Port), Result{Success, ""}, 1},
		{"other host", fmt.Sprintf("http://localhost:%d/", other.HTTP.Port), Result{Warning, fmt.Sprintf("Probe terminated redirects, Response body: <a href=\"http://localhost:%d/\">Found</a>.\n\n", other.HTTP.Port)}, 1},
	} {
		hits := 0
		plan := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
			hits++
			switch r.URL.Path {
			case "/start":
				http.Redirect(w, r, test.to, http.StatusFound)
			case "/fail":
				w.WriteHeader(500)
			default:
				io.WriteString(w, "end")
			}
		})
		got, err := Run(t.Context(), plan, local)
		if err != nil || got != test.want || hits != test.hits {
			t.Errorf("%s: %+v %v after %d requests", test.name, got, err, hits)
		}
	}
	if elsewhere != 1 {
		t.Errorf("%d requests went to the other port, want the one of the same host", elsewhere)
	}
}

func TestHTTPRedirectsEnd(t *testing.T) {
	hits := 0
	plan := serve(t, false, func(w http.ResponseWriter, r *http.Request) { hits++; http.Redirect(w, r, "/start", http.StatusFound) })
	got, err := Run(t.Context(), plan, local)
	if err != nil || got.Outcome != Failure || !strings.HasSuffix(got.Output, "stopped after 10 redirects") || hits != 10 {
		t.Errorf("%v %v after %d requests", got, err, hits)
	}
}

func TestHTTPSIsNotVerified(t *testing.T) {
	proto := ""
	plan := serve(t, true, func(_ http.ResponseWriter, r *http.Request) { proto = r.Proto })
	if got, err := Run(t.Context(), plan, local); err != nil || got.Outcome != Success {
		t.Fatalf("%v %v", got, err)
	}
	if proto != "HTTP/2.0" {
		t.Errorf("over %s; a kubelet uses HTTP/2 if the server supports it", proto)
	}
	plan.HTTP.Scheme = "http"
	if got, err := Run(t.Context(), plan, local); err != nil || got.Outcome != Failure {
		t.Errorf("HTTP to an HTTPS port: %v %v", got, err)
	}
}

func TestHTTPReadsNoMoreThan10KiB(t *testing.T) {
	plan := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 1<<20)) })
	got, err := Run(t.Context(), plan, local)
	if err != nil || got != (Result{Success, strings.Repeat("x", 10240)}) {
		t.Errorf("%s %d bytes %v", got.Outcome, len(got.Output), err)
	}
}

func TestHTTPBodyThatBreaksOff(t *testing.T) {
	hits := 0
	plan := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		hits++
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "five!")
	})
	got, err := Run(t.Context(), plan, local)
	if err == nil || got.Outcome != Failure || hits != 3 {
		t.Errorf("%v %v after %d requests, want an error after 3", got, err, hits)
	}
}

func TestHTTPTimeout(t *testing.T) {
	release := make(chan struct{})
	plan := serve(t, false, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	got, err := runHTTP(t.Context(), *plan.HTTP, "127.0.0.1", time.Second)
	if err != nil || got.Outcome != Failure || !strings.Contains(got.Output, "context deadline exceeded") || !strings.HasPrefix(got.Output, `Get "http://127.0.0.1:`) {
		t.Errorf("%v %v", got, err)
	}
}

func TestHTTPNobodyListens(t *testing.T) {
	port := closedPort(t)
	plan := httpPlan(corev1.HTTPGetAction{Port: intstr.FromInt(port), Path: "x y"})
	got, err := Run(t.Context(), plan, local)
	want := fmt.Sprintf(`Get "http://127.0.0.1:%d/x%%20y": dial tcp 127.0.0.1:%d: connect: connection refused`, port, port)
	if err != nil || got != (Result{Failure, want}) {
		t.Errorf("%v %v, want %s", got, err, want)
	}
}

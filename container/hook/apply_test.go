package hook

import (
	gocmp "cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

func planned(p Plan) Plan {
	p.ID, p.Container, p.Hook = testID, "app", PostStart
	return p
}

// failureOf returns the kubelet's message for a failed hook.
func failureOf(t *testing.T, err error, kind problem.Kind) string {
	t.Helper()
	var failed *problem.Error
	var hook *HookError
	if !errors.As(err, &failed) || !errors.As(err, &hook) {
		t.Fatalf("error %#v", err)
	}
	if failed.Kind != kind || failed.Op != "postStart hook" || failed.Object != "container app" {
		t.Errorf("%s: %s: kind %s, want %s", failed.Object, failed.Op, failed.Kind, kind)
	}
	if hook.Event() != "PostStartHook failed" {
		t.Errorf("event %q", hook.Event())
	}
	return hook.Error()
}

func TestExec(t *testing.T) {
	plan := planned(Plan{Kind: Exec, Command: []string{"sh", "-c", "false"}})
	for _, test := range []struct {
		name string
		code int32
		err  error
		want string
	}{
		{"success", 0, nil, ""},
		{"exit code", 3, nil, `Exec lifecycle hook ([sh -c false]) for Container "app" in Pod "web_default(u-1)" failed - error: command 'sh -c false' exited with 3: bad` + "\n" + `, message: "out\nbad\n"`},
		{"runtime", 0, errors.New("no such container"), `Exec lifecycle hook ([sh -c false]) for Container "app" in Pod "web_default(u-1)" failed - error: no such container, message: "out\nbad\n"`},
	} {
		called := false
		err := Apply(t.Context(), plan, Target{ContainerID: "c1", Exec: func(ctx context.Context, id string, command []string) ([]byte, []byte, int32, error) {
			called = true
			if _, limited := ctx.Deadline(); limited {
				t.Errorf("%s: the hook has a time limit", test.name)
			}
			if id != "c1" || !cmp.Equal(command, plan.Command) {
				t.Errorf("%s: %s %v", test.name, id, command)
			}
			return []byte("out\n"), []byte("bad\n"), test.code, test.err
		}})
		if !called {
			t.Errorf("%s: nothing ran", test.name)
		}
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if got := failureOf(t, err, problem.Failed); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.name, got, test.want)
		}
	}
}

// server starts a server, and returns it with the plan of a hook that calls it.
func server(t *testing.T, start func(http.Handler) *httptest.Server, handler http.HandlerFunc) (*httptest.Server, Plan, string) {
	t.Helper()
	s := start(handler)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	return s, planned(Plan{Kind: HTTPGet, HTTP: &HTTP{Scheme: u.Scheme, Port: port, Path: "/hook?x=1"}}), u.Hostname()
}

func TestHTTPGetSendsWhatTheKubeletSends(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []corev1.HTTPHeader
		want    http.Header
		host    string
	}{
		{"defaults", nil, http.Header{"User-Agent": {"kube-lifecycle/1.36"}, "Accept": {"*/*"}}, ""},
		{"own", []corev1.HTTPHeader{{Name: "User-Agent", Value: "me"}, {Name: "accept", Value: ""}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Host", Value: "v.example"}},
			http.Header{"User-Agent": {"me"}, "X-A": {"1", "2"}}, "v.example"},
	} {
		var got *http.Request
		s, plan, ip := server(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request) { got = r; w.WriteHeader(500) })
		plan.HTTP.Headers = test.headers
		if err := Apply(t.Context(), plan, Target{PodIP: ip}); err != nil {
			t.Fatalf("%s: a status of 500 must not count: %v", test.name, err)
		}
		// Go's HTTP client added this header.
		got.Header.Del("Accept-Encoding")
		if diff := cmp.Diff(test.want, got.Header); diff != "" || got.Method != "GET" || got.RequestURI != "/hook?x=1" {
			t.Errorf("%s: %s %s %s", test.name, got.Method, got.RequestURI, diff)
		}
		if want := gocmp.Or(test.host, strings.TrimPrefix(s.URL, "http://")); got.Host != want {
			t.Errorf("%s: Host %s, want %s", test.name, got.Host, want)
		}
	}
}

func TestHTTPGetTakesAnyAnswer(t *testing.T) {
	elsewhere := 0
	_, other, _ := server(t, httptest.NewServer, func(http.ResponseWriter, *http.Request) { elsewhere++ })
	hits := 0
	_, plan, ip := server(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request) {
		hits++
		switch r.URL.Path {
		case "/hook":
			http.Redirect(w, r, "/second", http.StatusFound)
		case "/second":
			http.Redirect(w, r, "http://localhost:"+strconv.Itoa(other.HTTP.Port)+"/", http.StatusFound)
		}
	})
	if err := Apply(t.Context(), plan, Target{PodIP: ip}); err != nil {
		t.Fatal(err)
	}
	if hits != 2 || elsewhere != 0 {
		t.Errorf("%d requests to this host and %d to another one; want 2 and 0", hits, elsewhere)
	}
}

func TestHTTPSIsNotVerified(t *testing.T) {
	hits := 0
	s, plan, ip := server(t, httptest.NewTLSServer, func(http.ResponseWriter, *http.Request) { hits++ })
	s.Config.ErrorLog = nil
	if err := Apply(t.Context(), plan, Target{PodIP: ip}); err != nil || hits != 1 {
		t.Errorf("%d requests, %v", hits, err)
	}
}

func TestHTTPSFallsBackToHTTPWithoutCredentials(t *testing.T) {
	var got *http.Request
	_, plan, ip := server(t, httptest.NewServer, func(_ http.ResponseWriter, r *http.Request) { got = r })
	plan.HTTP.Scheme = "https"
	plan.HTTP.Headers = []corev1.HTTPHeader{{Name: "Authorization", Value: "Basic x"}, {Name: "X-A", Value: "1"}}
	if err := Apply(t.Context(), plan, Target{PodIP: ip}); err != nil {
		t.Fatal(err)
	}
	if got == nil || got.Header.Get("Authorization") != "" || got.Header.Get("X-A") != "1" {
		t.Errorf("request %+v", got)
	}
}

func TestHTTPGetFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// No other process can listen on the client's port while this connection exists.
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	port := client.LocalAddr().(*net.TCPAddr).Port
	plan := planned(Plan{Kind: HTTPGet, HTTP: &HTTP{Scheme: "http", Port: port, Path: "/x"}})
	const prefix = `HTTP lifecycle hook (/x) for Container "app" in Pod "web_default(u-1)" failed - error: `
	for _, test := range []struct{ name, host, podIP, want string }{
		{"nobody listens", "", "127.0.0.1", "connection refused"},
		{"host network", "", "", "set httpGet.host"},
		{"host of its own", "127.0.0.1", "", "connection refused"},
	} {
		plan.HTTP.Host = test.host
		got := failureOf(t, Apply(t.Context(), plan, Target{PodIP: test.podIP}), problem.Failed)
		if !strings.HasPrefix(got, prefix) || !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

func TestHTTPGetEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	_, plan, ip := server(t, httptest.NewServer, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	failureOf(t, Apply(ctx, plan, Target{PodIP: ip}), problem.Deadline)
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := Apply(t.Context(), planned(Plan{Kind: Sleep, Seconds: 30}), Target{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("slept %v", took)
		}
		if err := Apply(t.Context(), planned(Plan{Kind: Sleep}), Target{}); err != nil {
			t.Errorf("no seconds: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := failureOf(t, Apply(ctx, planned(Plan{Kind: Sleep, Seconds: 30}), Target{}), problem.Deadline)
		if want := `Sleep lifecycle hook (30) for Container "app" in Pod "web_default(u-1)" failed - error: container terminated before sleep hook finished`; !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		if took := time.Since(begun); took != 31*time.Second {
			t.Errorf("ended after %v", took-30*time.Second)
		}
	})
}

func TestTCPSocketAlwaysFails(t *testing.T) {
	plan, _ := New(testID, postStart(corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}), PostStart)
	got := failureOf(t, Apply(t.Context(), plan, Target{PodIP: "127.0.0.1"}), problem.Failed)
	if !strings.HasPrefix(got, "Cannot run handler: invalid handler: &LifecycleHandler{") {
		t.Error(got)
	}
}

func TestPreStopEvent(t *testing.T) {
	if got := (&HookError{Plan: Plan{Hook: PreStop}}).Event(); got != "PreStopHook failed" {
		t.Error(got)
	}
}

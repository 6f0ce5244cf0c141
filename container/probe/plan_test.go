package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podrun/podrun/internal/identity"
)

var testID = identity.Pod{Namespace: "default", Name: "web", UID: "u-1"}

func ptr[T any](v T) *T { return &v }

func httpGet(port intstr.IntOrString, headers ...corev1.HTTPHeader) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: port, HTTPHeaders: headers}}
}

func TestNewHandlers(t *testing.T) {
	agent, accept := corev1.HTTPHeader{Name: "User-Agent", Value: "kube-probe/1.36"}, corev1.HTTPHeader{Name: "Accept", Value: "*/*"}
	get := func(port int, headers ...corev1.HTTPHeader) Plan {
		return Plan{HTTP: &HTTP{Scheme: "http", Path: "/x", Port: port, Headers: headers}}
	}
	own := []corev1.HTTPHeader{{Name: "user-agent", Value: "me"}, {Name: "ACCEPT", Value: ""}, {Name: "X-A", Value: "1"}}
	for name, test := range map[string]struct {
		handler corev1.ProbeHandler
		want    Plan
	}{
		"exec, with what the spec itself says of env": {
			corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"echo", "$(A) $(B) $(NONE) $$(A)"}}},
			Plan{Exec: []string{"echo", "1  $(NONE) $(A)"}}},
		"port by number":                        {httpGet(intstr.FromInt32(80)), get(80, agent, accept)},
		"port by name":                          {httpGet(intstr.FromString("http")), get(8080, agent, accept)},
		"a name of digits wins over the number": {httpGet(intstr.FromString("1234")), get(1, agent, accept)},
		"a number in quotes":                    {httpGet(intstr.FromString("99")), get(99, agent, accept)},
		"own headers":                           {httpGet(intstr.FromInt32(80), own...), get(80, own...)},
		"scheme and host": {
			corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Scheme: corev1.URISchemeHTTPS, Host: "h", Port: intstr.FromInt32(1)}},
			Plan{HTTP: &HTTP{Scheme: "https", Host: "h", Port: 1, Headers: []corev1.HTTPHeader{agent, accept}}}},
		"no such port": {httpGet(intstr.FromString("grpc")), broken(get(0, agent, accept), `no port of container app is named "grpc"`)},
		"out of range": {httpGet(intstr.FromInt32(70000)), broken(get(0, agent, accept), "invalid port number: 70000")},
		"a number in quotes out of range": {httpGet(intstr.FromString("70000")),
			broken(get(0, agent, accept), "invalid port number: 70000")},
		"tcp":              {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "h", Port: intstr.FromString("http")}}, Plan{TCP: &TCP{Host: "h", Port: 8080}}},
		"tcp without port": {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}, broken(Plan{TCP: &TCP{}}, "invalid port number: 0")},
		"grpc":             {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 90, Service: ptr("live")}}, Plan{GRPC: &GRPC{Port: 90, Service: "live"}}},
		"grpc, any":        {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 90}}, Plan{GRPC: &GRPC{Port: 90}}},
		"nothing":          {corev1.ProbeHandler{}, broken(Plan{}, "missing probe handler for web_default(u-1):app")},
	} {
		c := &corev1.Container{Name: "app", LivenessProbe: &corev1.Probe{ProbeHandler: test.handler},
			Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{}}},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "1234", ContainerPort: 1}}}
		want := test.want
		want.ID, want.Container, want.Kind = testID, "app", Liveness
		want.TimeoutSeconds, want.PeriodSeconds, want.SuccessThreshold, want.FailureThreshold = 1, 10, 1, 3
		got, ok := New(testID, c, Liveness)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v %s", name, ok, diff)
		}
	}
}

func broken(p Plan, problem string) Plan {
	p.Problem = problem
	return p
}

func TestAllTakesEachProbesOwnFigures(t *testing.T) {
	spec := func(n int32) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}},
			InitialDelaySeconds: n, TimeoutSeconds: n + 1, PeriodSeconds: n + 2, SuccessThreshold: n + 3, FailureThreshold: n + 4,
			TerminationGracePeriodSeconds: ptr(int64(n + 5))}
	}
	c := &corev1.Container{Name: "app", LivenessProbe: spec(10), ReadinessProbe: spec(20), StartupProbe: spec(30)}
	want := func(k Kind, n int32, grace *int64) Plan {
		return Plan{ID: testID, Container: "app", Kind: k, Exec: []string{"a"},
			InitialDelaySeconds: n, TimeoutSeconds: n + 1, PeriodSeconds: n + 2, SuccessThreshold: n + 3, FailureThreshold: n + 4, GraceSeconds: grace}
	}
	// A readiness probe never causes a kill, so its plan has no grace period.
	if diff := cmp.Diff([]Plan{want(Startup, 30, ptr(int64(35))), want(Readiness, 20, nil), want(Liveness, 10, ptr(int64(15)))}, All(testID, c)); diff != "" {
		t.Error(diff)
	}
	if got := All(testID, &corev1.Container{}); got != nil {
		t.Errorf("probes of a container that has none: %+v", got)
	}
	if _, ok := New(testID, c, "Other"); ok {
		t.Error("a probe of no kind was found")
	}
}

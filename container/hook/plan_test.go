package hook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podrun/podrun/internal/identity"
)

var testID = identity.Pod{Namespace: "default", Name: "web", UID: "u-1"}

func postStart(h corev1.LifecycleHandler) *corev1.Container {
	return &corev1.Container{Name: "app", Lifecycle: &corev1.Lifecycle{PostStart: &h},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "1234", ContainerPort: 1}}}
}

func httpGet(port intstr.IntOrString) corev1.LifecycleHandler {
	return corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: port, Scheme: corev1.URISchemeHTTPS}}
}

func TestNew(t *testing.T) {
	request := func(port int) Plan {
		return Plan{Kind: HTTPGet, HTTP: &HTTP{Scheme: "https", Path: "/x", Port: port}}
	}
	broken := func(p Plan, problem string) Plan { p.Problem = problem; return p }
	for name, test := range map[string]struct {
		handler corev1.LifecycleHandler
		want    Plan
	}{
		"exec":                                  {corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"a", "b"}}}, Plan{Kind: Exec, Command: []string{"a", "b"}}},
		"sleep":                                 {corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}, Plan{Kind: Sleep, Seconds: 3}},
		"port by number":                        {httpGet(intstr.FromInt32(80)), request(80)},
		"port by name":                          {httpGet(intstr.FromString("http")), request(8080)},
		"a name of digits wins over the number": {httpGet(intstr.FromString("1234")), request(1)},
		"a number in quotes":                    {httpGet(intstr.FromString("99")), request(99)},
		"no such port":                          {httpGet(intstr.FromString("grpc")), broken(request(0), "couldn't find port: grpc in container app")},
		"port out of range":                     {httpGet(intstr.FromInt32(70000)), broken(request(0), "invalid port number: 70000")},
		"nothing":                               {corev1.LifecycleHandler{}, broken(Plan{Kind: Invalid}, "invalid handler: &LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:nil,Sleep:nil,}")},
	} {
		test.want.ID, test.want.Container, test.want.Hook = testID, "app", PostStart
		got, ok := New(testID, postStart(test.handler), PostStart)
		if diff := cmp.Diff(test.want, got); !ok || diff != "" {
			t.Errorf("%s: %v %s", name, ok, diff)
		}
	}
}

func TestNewWithoutAHook(t *testing.T) {
	c := postStart(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}})
	if _, ok := New(testID, c, PreStop); ok {
		t.Error("a preStop was found")
	}
	if _, ok := New(testID, &corev1.Container{}, PostStart); ok {
		t.Error("a postStart was found without a lifecycle")
	}
	c.Lifecycle.PreStop = &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}
	if p, ok := New(testID, c, PreStop); !ok || p.Kind != Invalid || p.Problem == "" {
		t.Errorf("tcpSocket: %v %+v", ok, p)
	}
}

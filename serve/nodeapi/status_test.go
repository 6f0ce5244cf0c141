package nodeapi

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/test/patience"
)

// secret occurs in each string of a pod that a client of the status socket must not read.
const secret = "hunter2"

// fill sets all strings below a value to secret. It sets pointers, lists and maps to values
// with one element.
func fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(secret)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		switch v.Interface().(type) {
		case resource.Quantity, metav1.Time, metav1.FieldsV1:
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth+1)
			}
		}
	}
}

// stringsOf collects the strings of a JSON value, by path.
func stringsOf(v any, path string, out map[string]string) {
	switch v := v.(type) {
	case string:
		out[path] = v
	case []any:
		for _, e := range v {
			stringsOf(e, path, out)
		}
	case map[string]any:
		for k, e := range v {
			stringsOf(e, path+"."+k, out)
		}
	}
}

// TestStatusOf sets all fields of a pod, and checks that the status socket shows only the listed ones. The test
// therefore also fails if the status socket shows a field that a later Kubernetes version adds.
func TestStatusOf(t *testing.T) {
	var pod corev1.Pod
	fill(reflect.ValueOf(&pod).Elem(), 0)
	pod.Status = corev1.PodStatus{}
	status := corev1.ContainerStatus{Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "r", Message: secret}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "r", ExitCode: 1, Message: secret}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{status}, []corev1.ContainerStatus{status}
	data, err := json.Marshal(statusOf(&pod))
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	stringsOf(value, "", shown)
	allowed := map[string]bool{".apiVersion": true, ".kind": true, ".metadata.name": true, ".metadata.namespace": true, ".metadata.uid": true,
		".spec.nodeName": true, ".spec.restartPolicy": true, ".spec.priorityClassName": true, ".spec.runtimeClassName": true,
		".spec.resources.claims.name": true, ".spec.resources.claims.request": true, ".spec.ephemeralContainers.targetContainerName": true}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, field := range []string{"name", "image", "restartPolicy", "ports.name", "ports.hostIP", "ports.protocol", "resources.claims.name", "resources.claims.request"} {
			allowed[".spec."+list+"."+field] = true
		}
	}
	for path, text := range shown {
		if text == secret && !allowed[path] && !strings.HasPrefix(path, ".metadata.labels.") {
			t.Errorf("%s is shown", path)
		}
	}
	if shown[".metadata.name"] == "" || !strings.Contains(string(data), `"exitCode":1`) || pod.Status.ContainerStatuses[0].State.Waiting.Message != secret {
		t.Errorf("%s", data)
	}
}

// TestStatusSocket checks that the socket for monitoring serves metrics and status, but nothing
// that gives its clients access to pods.
func TestStatusSocket(t *testing.T) {
	b := streaming(t)
	b.Pods = func(context.Context) (*corev1.PodList, error) {
		return &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}}}}}}}, nil
	}
	b.Health = func() []Check {
		return []Check{{Name: "source /etc/m", Reason: "spec.containers[0].env[0].value: " + secret}, {Name: "workers", Live: true}}
	}
	path := filepath.Join(t.TempDir(), "readonly.sock")
	l, err := ListenUnix(Socket{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(b)
	done := make(chan error, 1)
	go func() { done <- s.ServeStatus(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	c := patience.Client(t, &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return DialUnix(ctx, path) }})
	for _, test := range []struct {
		path string
		code int
		want string
	}{
		{"/healthz", 200, "ok"},
		{"/readyz", 503, "[-]source /etc/m failed: reason withheld\n[+]workers ok\nreadyz check failed"},
		{"/pods", 200, `"name":"web"`},
		{"/metrics", 200, "kubelet_running_pods"},
		{"/metrics/resource", 200, "pod_cpu_usage_seconds_total"},
		{"/stats/summary", 200, "podRef"},
		{"/sources", 403, "this socket serves only"},
		{"/events", 403, ""},
		{"/containerLogs/default/web/app", 403, ""},
		{"/exec/default/web/app?command=id&output=1", 403, ""},
		{"/attach/default/web/app?output=1", 403, ""},
		{"/portForward/default/web", 403, ""},
		{"/", 403, ""},
	} {
		code, body := get(t, c, test.path)
		if code != test.code || !strings.Contains(body, test.want) || strings.Contains(body, secret) {
			t.Errorf("%s: %d %q, want %d %q", test.path, code, body, test.code, test.want)
		}
	}
	for _, path := range []string{"/pods", "/exec/default/web/app?command=id&output=1"} {
		resp, err := c.Post("http://podrun"+path, "", nil)
		if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %v %v", path, resp, err)
		}
	}
}

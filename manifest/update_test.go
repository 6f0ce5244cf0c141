package manifest

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest/input"
)

const updatable = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: app, image: "r.example/app:1", env: [{name: A, value: "1"}]}
  - {name: log, image: "r.example/log:1"}
`

func updatablePod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	objects, problems := Load([]input.Source{{Name: "pod.yaml", Data: []byte(text)}}, Options{})
	if errs := problems.Errors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	return objects.Pods[0].Object
}

func TestUpdate(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		changes        []string
		inPlace        bool
	}{
		{"nothing", "", "", nil, true},
		{"image", "r.example/app:1", "r.example/app:2", []string{"spec.containers[0].image"}, true},
		{"label", "{app: web}", "{app: web, tier: front}", []string{"metadata.labels"}, true},
		{"deadline", "spec:\n", "spec:\n  activeDeadlineSeconds: 5\n", []string{"spec.activeDeadlineSeconds"}, true},
		{"env", `value: "1"`, `value: "2"`, []string{"spec.containers[0].env[0].value"}, false},
		{"one more env", `[{name: A, value: "1"}]`, `[{name: A, value: "1"}, {name: B, value: "2"}]`, []string{"spec.containers[0].env"}, false},
		{"one container less", "  - {name: log, image: \"r.example/log:1\"}\n", "", []string{"spec.containers"}, false},
		{"host network", "spec:\n", "spec:\n  hostNetwork: true\n", []string{"spec.hostNetwork"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := updatablePod(t, updatable), updatablePod(t, strings.Replace(updatable, c.from, c.to, 1))
			before.UID, before.Spec.NodeName = "x", "here"
			if got := Changes(before, after); !slices.Equal(got, c.changes) {
				t.Errorf("Changes = %q, want %q", got, c.changes)
			}
			if got := InPlace(before, after); got != c.inPlace {
				t.Errorf("InPlace = %v, want %v", got, c.inPlace)
			}
		})
	}
}

// TestResizeInPlace checks that CPU and memory may change as the API allows for a resize
// (KEP-1287), together with changes that an update allows.
func TestResizeInPlace(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: setup, image: "r.example/app:1", resources: {requests: {cpu: 10m}}}
  - {name: proxy, image: "r.example/app:1", restartPolicy: Always, resources: {requests: {cpu: 11m}}}
  containers:
  - name: app
    image: "r.example/app:1"
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
    resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]
  - {name: log, image: "r.example/log:1"}
`
	for _, c := range []struct {
		name, from, to string
		inPlace        bool
	}{
		{"request of CPU", "cpu: 100m", "cpu: 200m", true},
		{"limit of memory", "memory: 128Mi", "memory: 256Mi", true},
		{"a limit more", "limits: {memory: 128Mi}", "limits: {cpu: 1, memory: 128Mi}", true},
		{"a limit less", ", limits: {memory: 128Mi}", "", false},
		{"resources and image", `"r.example/app:1"
    resources: {requests: {cpu: 100m`, `"r.example/app:2"
    resources: {requests: {cpu: 300m`, true},
		{"resources and command", "resources: {requests: {cpu: 100m", "command: [x]\n    resources: {requests: {cpu: 300m", false},
		{"of a sidecar", "cpu: 11m", "cpu: 12m", true},
		{"of an init container", "cpu: 10m", "cpu: 12m", true},
		{"container with none gets some", `image: "r.example/log:1"`, `image: "r.example/log:1", resources: {requests: {cpu: 5m}}`, true},
		{"policy", "restartPolicy: RestartContainer", "restartPolicy: NotRequired", false},
		{"another resource", "limits: {memory", "limits: {ephemeral-storage: 1Gi, memory", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(pod, c.from, c.to, 1)
			if changed == pod {
				t.Fatal("nothing is replaced")
			}
			if got := InPlace(updatablePod(t, pod), updatablePod(t, changed)); got != c.inPlace {
				t.Errorf("InPlace = %v, want %v", got, c.inPlace)
			}
		})
	}
	guaranteed := strings.Replace(updatable, `env: [{name: A, value: "1"}]`, "resources: {limits: {cpu: 1, memory: 64Mi}}", 1)
	guaranteed = strings.Replace(guaranteed, `image: "r.example/log:1"`, `image: "r.example/log:1", resources: {limits: {cpu: 1, memory: 64Mi}}`, 1)
	burstable := strings.Replace(guaranteed, "limits: {cpu: 1", "requests: {cpu: 500m}, limits: {cpu: 1", 1)
	if InPlace(updatablePod(t, guaranteed), updatablePod(t, burstable)) {
		t.Error("a resize changes the QoS class")
	}
}

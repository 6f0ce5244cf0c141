package manifest

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	objects, problems := Load([]Source{{Name: "pod.yaml", Data: []byte(text)}}, Options{})
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

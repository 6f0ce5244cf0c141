package access

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

func TestChooseContainer(t *testing.T) {
	container := func(names ...string) (list []corev1.Container) {
		for _, n := range names {
			list = append(list, corev1.Container{Name: n})
		}
		return list
	}
	for _, c := range []struct {
		inits, apps      []corev1.Container
		annotation, name string
		want, err        string
		among            []string
	}{
		{nil, container("app"), "", "", "app", "", nil},
		{nil, container("a", "b"), "", "", "a", "", []string{"a", "b"}},
		{container("i"), container("a"), "", "", "a", "", []string{"a", "i (init)"}},
		{container("i"), container("a", "b"), "", "b", "b", "", nil},
		{container("i"), container("a", "b"), "", "i", "i", "", nil},
		{container("i"), container("a", "b"), "b", "", "b", "", nil},
		{container("i"), container("a", "b"), "b", "a", "a", "", nil},
		{container("i"), container("a", "b"), "", "c", "", `it has no container "c"; it has a, b, i (init)`, nil},
		{nil, container("a", "b"), "c", "", "", `it has no container (from its default-container annotation) "c"; it has a, b`, nil},
		{nil, nil, "", "", "", "it has no containers", nil},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: c.inits, Containers: c.apps}}
		if c.annotation != "" {
			pod.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": c.annotation}
		}
		got, among, err := ChooseContainer(pod, c.name)
		if got != c.want || !slices.Equal(among, c.among) && err == nil || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%+v: got %q, %q, %v", c, got, among, err)
		}
	}
}

// TestExecFault uses the messages of real runtimes for commands that cannot be started.
func TestExecFault(t *testing.T) {
	for _, c := range []struct {
		text, want string
		kind       problem.Kind
		code       int
	}{
		{`failed to exec in container: failed to start exec "af": OCI runtime exec failed: exec failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown`,
			`exec: "x": executable file not found in $PATH`, problem.Failed, 127},
		{`Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "af": OCI runtime exec failed: exec failed: unable to start container process: exec: "/x": stat /x: no such file or directory: unknown`,
			`exec: "/x": stat /x: no such file or directory`, problem.Failed, 127},
		{`OCI runtime exec failed: exec failed: unable to start container process: exec: "/etc": permission denied: unknown`,
			`exec: "/etc": permission denied`, problem.Failed, 126},
		{`OCI runtime exec failed: exec failed: container_linux.go:380: starting container process caused: exec format error: unknown`,
			`starting container process caused: exec format error`, problem.Failed, 126},
		{"OCI runtime exec failed: exec failed: executable file `x` not found in $PATH: No such file or directory: unknown",
			"executable file `x` not found in $PATH: No such file or directory", problem.Failed, 127},
		{"shim disconnected", "shim disconnected", problem.Runtime, 0},
	} {
		code, err := Target{Container: "app"}.Fault("exec", errors.New(c.text))
		var e *problem.Error
		if !errors.As(err, &e) || e.Kind != c.kind || !strings.Contains(err.Error(), "container app: exec: ") {
			t.Errorf("%s: %v", c.text, err)
		}
		if code != c.code || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: code %d, %v", c.text, code, err)
		}
	}
}

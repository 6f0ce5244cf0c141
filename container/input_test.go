package container

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

func ptr[T any](v T) *T { return &v }

// input returns the input for the container app of the pod default/web with UID u. test/parity
// compares the settings that all pods have with a kubelet's recordings.
func input(c corev1.Container) Input {
	c.Name = "app"
	s := nodeconfig.Default()
	return Input{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
		},
		Name: "app", ID: identity.Pod{Namespace: "default", Name: "web", UID: "u"},
		Layout: s.Layout(), Settings: s,
		Facts: host.Facts{
			NodeName: "node", NodeIPs: []string{"192.0.2.10"}, Cgroup: host.Cgroup{Version: 1},
			Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		Namespaces: &runtimeapi.NamespaceOption{},
	}
}

func mustPlan(t *testing.T, in Input) Plan {
	t.Helper()
	p, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func mustConfig(t *testing.T, in Input, late Late) *runtimeapi.ContainerConfig {
	t.Helper()
	c, err := mustPlan(t, in).Config(late)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// envOf formats the environment, in the order of its variables.
func envOf(c *runtimeapi.ContainerConfig) string {
	var out []string
	for _, kv := range c.Envs {
		out = append(out, kv.Key+"="+string(kv.Value))
	}
	return strings.Join(out, " ")
}

// wantProblem fails unless there is a problem of this field whose message contains the text.
func wantProblem(t *testing.T, problems problem.List, field, text string) {
	t.Helper()
	for _, p := range problems {
		if p.Field == field && strings.Contains(p.Message, text) {
			return
		}
	}
	t.Errorf("no problem of %s with %q in:\n%s", field, text, problems)
}

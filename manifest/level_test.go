package manifest

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestMeant(t *testing.T) {
	pod, deployment := reflect.TypeOf(&corev1.Pod{}), reflect.TypeOf(&appsv1.Deployment{})
	for _, tc := range []struct {
		of         reflect.Type
		path, want string
	}{
		{pod, "spec.image", "did you mean spec.containers[].image?"},
		{pod, "spec.command", "did you mean spec.containers[].command?"},
		{pod, "spec.env", "did you mean spec.containers[].env?"},
		{pod, "spec.livenessProbe", "did you mean spec.containers[].livenessProbe?"},
		{pod, "spec.runAsUser", "did you mean spec.securityContext.runAsUser?"},
		{pod, "spec.privileged", "did you mean spec.containers[].securityContext.privileged?"},
		{pod, "containers", "did you mean spec.containers?"},
		{pod, "spec.labels", "did you mean metadata.labels?"},
		{pod, "name", "did you mean metadata.name?"},
		{pod, "spec.containers[0].hostNetwork", "did you mean spec.hostNetwork?"},
		{pod, "spec.containers[2].volumes", "did you mean spec.volumes?"},
		{pod, "spec.containers[2].runAsUser", "did you mean spec.containers[2].securityContext.runAsUser?"},
		{pod, "spec.containers[0].ports[0].livenessProbe", "did you mean spec.containers[0].livenessProbe?"},
		{pod, "spec.initContainers[1].initContainers", "did you mean spec.initContainers?"},
		// limits have keys and not fields.
		{pod, "spec.containers[0].memory", ""},
		{pod, "spec.containers[0].envs", `did you mean "env"?`},
		// The suggestion must not be the port of a probe.
		{pod, "spec.containers[0].port", `did you mean "ports"?`},
		{pod, "spec.contaners", `did you mean "containers"?`},
		{pod, "spec.x", ""},
		{pod, "", ""},
		{deployment, "spec.containers", "did you mean spec.template.spec.containers?"},
		{deployment, "spec.template.spec.image", "did you mean spec.template.spec.containers[].image?"},
		{deployment, "spec.template.containers", "did you mean spec.template.spec.containers?"},
		{deployment, "replicas", "did you mean spec.replicas?"},
	} {
		if got := meant(tc.of, segments(tc.path)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.path, got, tc.want)
		}
	}
}

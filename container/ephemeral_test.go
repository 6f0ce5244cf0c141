package container

import (
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

// TestEphemeral checks that the config of an ephemeral container equals that of an app container
// with the same definition, except for the target's PID namespace (generateLinuxContainerConfig in
// pkg/kubelet/kuberuntime). The kubelet's recordings contain no ephemeral containers, because the
// kubelet refuses them in static pods.
func TestEphemeral(t *testing.T) {
	common := corev1.EphemeralContainerCommon{
		Image: "busybox", Command: []string{"sh"}, Stdin: true, TTY: true,
		Env:             []corev1.EnvVar{{Name: "A", Value: "b"}},
		VolumeMounts:    []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}},
	}
	late := Late{ImageID: "sha256:1", TargetID: "target", PodIPs: []string{"10.0.0.1"}, Mounts: map[string]MountSource{"v": {HostPath: "/v"}}}
	for _, tc := range []struct {
		name   string
		pid    runtimeapi.NamespaceMode
		target string // ID of the target
		want   runtimeapi.NamespaceMode
		wantID string
	}{
		{"its own processes", runtimeapi.NamespaceMode_CONTAINER, "", runtimeapi.NamespaceMode_CONTAINER, ""},
		{"those of its target", runtimeapi.NamespaceMode_CONTAINER, "target", runtimeapi.NamespaceMode_TARGET, "target"},
		{"those of the pod", runtimeapi.NamespaceMode_POD, "target", runtimeapi.NamespaceMode_POD, ""},
		{"those of the host", runtimeapi.NamespaceMode_NODE, "target", runtimeapi.NamespaceMode_NODE, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := input(corev1.Container(common))
			in.Namespaces = &runtimeapi.NamespaceOption{Pid: tc.pid, Ipc: runtimeapi.NamespaceMode_POD}
			want := mustConfig(t, in, late)
			want = proto.CloneOf(want)
			want.Linux.SecurityContext.NamespaceOptions.Pid = tc.want
			want.Linux.SecurityContext.NamespaceOptions.TargetId = tc.wantID

			in.Pod.Spec.Containers = nil
			c := corev1.EphemeralContainer{EphemeralContainerCommon: common, TargetContainerName: "main"}
			c.Name = "app"
			in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{c}
			late := late
			late.TargetID = tc.target
			p := mustPlan(t, in)
			got, err := p.Config(late)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("-app +ephemeral:\n%s", diff)
			}
			if p.Kind != Ephemeral || p.Target != "main" || p.FieldPath != "spec.ephemeralContainers{app}" {
				t.Errorf("planned as %s of %s at %s", p.Kind, p.Target, p.FieldPath)
			}
			if in.Namespaces.TargetId != "" {
				t.Error("the target is in the sandbox's namespaces, which all containers share")
			}
		})
	}
}

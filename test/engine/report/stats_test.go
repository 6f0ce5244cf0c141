package report

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/test/engine/rig"
)

// foreignContainer starts a container of another client of the runtime, in a pod with the
// labels that a kubelet sets, and returns the container's ID.
func foreignContainer(r *rig.Host) string {
	r.T.Helper()
	labels := map[string]string{"io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.name": "other", "io.kubernetes.pod.uid": "other", "io.kubernetes.container.name": "other"}
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "other", Namespace: "default", Uid: "other"}, Labels: labels}
	sandbox, err := r.Runtime.RunPodSandbox(context.Background(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		r.T.Fatal(err)
	}
	made, err := r.Runtime.CreateContainer(context.Background(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "other"}, Image: &runtimeapi.ImageSpec{Image: "registry.example/app:1"}, Labels: labels}})
	if err != nil {
		r.T.Fatal(err)
	}
	return made.ContainerId
}

// TestStatsOfRuntimeFiles checks that the usage of a pod includes the files that the runtime mounts
// into its containers. podrun must read only the containers of the pods that it measures. If the
// runtime returns an error, podrun must print a warning, unless the container has been removed.
func TestStatsOfRuntimeFiles(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.PodText("web", "Always", "containers: [{name: web, image: registry.example/web:1}]"), run.OutcomeCreated)
	foreign, pod := foreignContainer(r), r.Pod("web")
	var requested []string
	answer := func(err error) []string {
		t.Helper()
		requested = nil
		clear := r.Runtime.Fault("ContainerStatus", critest.Fault{Err: err, Match: func(req proto.Message) bool {
			requested = append(requested, req.(*runtimeapi.ContainerStatusRequest).GetContainerId())
			return true
		}})
		r.Forget()
		if u := supervisor.NewStats(r.Engine()).Pods(t.Context(), []*corev1.Pod{pod}); u[string(pod.UID)] == nil {
			t.Error("no usage")
		}
		clear()
		return r.Warnings()
	}
	if got := answer(status.Error(codes.Unavailable, "the runtime is busy")); r.Warned("the runtime is busy") != 1 || r.Warned("default/web") != 1 {
		t.Errorf("warnings %q, want one that the usage of pod default/web is too low", got)
	}
	if len(requested) != 1 || slices.Contains(requested, foreign) {
		t.Errorf("podrun requested %q, and container %s is not one of its pods", requested, foreign)
	}
	if got := answer(status.Error(codes.NotFound, "removed")); len(got) > 0 {
		t.Errorf("warnings %q about a container that has been removed", got)
	}
}

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestGetSaysWhatIsMountedRecursively checks that apply and get show whether a mount is recursively
// read-only with the handler of the pod's RuntimeClass (run/observe.TestViewOfMounts: with each handler).
func TestGetSaysWhatIsMountedRecursively(t *testing.T) {
	t.Parallel()
	able := &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}
	r := rig.New(t, critest.Handler("", nil), critest.Handler("sealed", able))
	result := r.MustApply(rig.PodText("web", "Always", "runtimeClassName: sealed", "volumes: [{name: v, emptyDir: {}}]", "containers:",
		"- name: app", "  image: registry.example/app:1", "  volumeMounts:",
		"  - {name: v, mountPath: /plain, readOnly: true}",
		"  - {name: v, mountPath: /if, readOnly: true, recursiveReadOnly: IfPossible}",
		"  - {name: v, mountPath: /must, readOnly: true, recursiveReadOnly: Enabled}")+
		"---\n{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: sealed}, handler: sealed}\n", run.OutcomeCreated)
	for from, status := range map[string]corev1.PodStatus{"apply": result.Status, "get": r.Pod("web").Status} {
		var got []string
		for _, m := range status.ContainerStatuses[0].VolumeMounts {
			got = append(got, m.MountPath+" "+string(*m.RecursiveReadOnly))
		}
		if diff := cmp.Diff("/plain Disabled, /if Enabled, /must Enabled", strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
	}
	r.MustDelete()
}

// TestGetShowsTheUser checks that get shows the identity of the first process (run/observe.TestUserOf: if
// the runtime reports it).
func TestGetShowsTheUser(t *testing.T) {
	t.Parallel()
	text := rig.PodText("web", "Always", "securityContext: {runAsUser: 1000, runAsGroup: 2000, supplementalGroups: [7]}",
		"containers: [{name: app, image: registry.example/app:1}]")
	r := rig.New(t, critest.Features(&runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}))
	r.MustApply(text, run.OutcomeCreated)
	want := &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 2000, SupplementalGroups: []int64{7, 2000}}}
	if diff := cmp.Diff(want, r.Pod("web").Status.ContainerStatuses[0].User); diff != "" {
		t.Error(diff)
	}
	r.MustDelete()
}

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

// TestGetSaysWhatIsMountedRecursively checks that get correctly shows whether a mount is
// recursively read-only. This depends on the mount's setting, and on the capabilities of the
// runtime handler of the pod's RuntimeClass (KEP-3857). Previously, get always reported
// recursiveReadOnly: Disabled.
func TestGetSaysWhatIsMountedRecursively(t *testing.T) {
	t.Parallel()
	able := &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}
	const class = "---\n{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: sealed}, handler: sealed}\n"
	mounts := []string{"- name: app", "  image: registry.example/app:1", "  volumeMounts:",
		"  - {name: v, mountPath: /plain, readOnly: true}",
		"  - {name: v, mountPath: /if, readOnly: true, recursiveReadOnly: IfPossible}",
		"  - {name: v, mountPath: /writable}"}
	for _, test := range []struct {
		name    string
		options []critest.Option
		class   string
		whole   bool // true if the mount must be recursively read-only
		want    string
	}{
		{name: "a runtime that lists no handlers", want: "/plain Disabled, /if Disabled, /writable "},
		{name: "able", options: []critest.Option{critest.Handler("", able)}, whole: true, want: "/plain Disabled, /if Enabled, /writable , /must Enabled"},
		{name: "another handler is able", options: []critest.Option{critest.Handler("", nil), critest.Handler("other", able)}, want: "/plain Disabled, /if Disabled, /writable "},
		{name: "the class's handler is able", options: []critest.Option{critest.Handler("", nil), critest.Handler("sealed", able)}, class: "sealed",
			want: "/plain Disabled, /if Enabled, /writable "},
		{name: "the class's handler is not", options: []critest.Option{critest.Handler("", able), critest.Handler("sealed", nil)}, class: "sealed",
			want: "/plain Disabled, /if Disabled, /writable "},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := rig.New(t, test.options...)
			spec := []string{"volumes: [{name: v, emptyDir: {}}]", "containers:"}
			spec = append(spec, mounts...)
			if test.whole {
				spec = append(spec, "  - {name: v, mountPath: /must, readOnly: true, recursiveReadOnly: Enabled}")
			}
			text := ""
			if test.class != "" {
				spec, text = append([]string{"runtimeClassName: " + test.class}, spec...), class
			}
			result := r.MustApply(rig.PodText("web", "Always", spec...)+text, run.OutcomeCreated)
			for from, status := range map[string]corev1.PodStatus{"apply": result.Status, "get": r.Pod("web").Status} {
				var got []string
				for _, m := range status.ContainerStatuses[0].VolumeMounts {
					mode := ""
					if m.RecursiveReadOnly != nil {
						mode = string(*m.RecursiveReadOnly)
					}
					got = append(got, m.MountPath+" "+mode)
				}
				if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
					t.Errorf("%s: %s", from, diff)
				}
			}
			r.MustDelete()
		})
	}
}

// TestGetShowsTheUser checks that get shows the identity of the first process if the runtime
// reports it (KEP-3619).
func TestGetShowsTheUser(t *testing.T) {
	t.Parallel()
	text := rig.PodText("web", "Always", "securityContext: {runAsUser: 1000, runAsGroup: 2000, supplementalGroups: [7]}",
		"containers: [{name: app, image: registry.example/app:1}]")
	for _, reports := range []bool{true, false} {
		r := rig.New(t, critest.Features(&runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: reports}))
		r.MustApply(text, run.OutcomeCreated)
		want := &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 2000, SupplementalGroups: []int64{7, 2000}}}
		if !reports {
			want = nil
		}
		if diff := cmp.Diff(want, r.Pod("web").Status.ContainerStatuses[0].User); diff != "" {
			t.Error(diff)
		}
		r.MustDelete()
	}
}

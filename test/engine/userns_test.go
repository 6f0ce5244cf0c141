package engine

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
)

func TestUserNamespace(t *testing.T) {
	t.Parallel()
	own := func(own bool) *corev1.Pod {
		host := !own
		return &corev1.Pod{Spec: corev1.PodSpec{HostUsers: &host}}
	}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		taken   map[string]uint32
		maxPods int32
		want    uint32 // first host ID; 0 means no user namespace
		problem string
	}{
		{name: "none asked for", pod: &corev1.Pod{}, maxPods: 110},
		{name: "the host's", pod: own(false), maxPods: 110},
		{name: "first", pod: own(true), maxPods: 110, want: 65536},
		{name: "lowest that is free", pod: own(true), taken: map[string]uint32{"a": 65536, "b": 3 * 65536}, maxPods: 110, want: 2 * 65536},
		{name: "the pod's own is kept", pod: own(true), taken: map[string]uint32{"this": 5 * 65536}, maxPods: 110, want: 5 * 65536},
		{name: "all taken", pod: own(true), taken: map[string]uint32{"a": 65536, "b": 2 * 65536}, maxPods: 2, problem: "other pods use all 2 ranges of host IDs"},
		// No other pod may get a range, because two pods must not share one.
		{name: "the range of another pod is unknown", pod: own(true), taken: map[string]uint32{"a": 65536, "broken": 0}, maxPods: 110, problem: "broken"},
		{name: "its own range is unknown", pod: own(true), taken: map[string]uint32{"a": 65536, "this": 0}, maxPods: 110, want: 2 * 65536},
		{name: "the pod has a range, that of another pod is unknown", pod: own(true), taken: map[string]uint32{"this": 65536, "broken": 0}, maxPods: 110, want: 65536},
		{name: "no more than there are IDs", pod: own(true), maxPods: 1<<31 - 1, want: 65536},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns, problems := prepare.UserNamespace(test.pod, "this", test.taken, test.maxPods)
			if got := problems.String(); !strings.Contains(got, test.problem) || test.problem == "" && got != "" {
				t.Errorf("problems: %s; want %q", got, test.problem)
			}
			if test.want == 0 {
				if ns != nil {
					t.Errorf("a user namespace: %v", ns)
				}
				return
			}
			for _, ids := range [][]*runtimeapi.IDMapping{ns.GetUids(), ns.GetGids()} {
				if len(ids) != 1 || ids[0].HostId != test.want || ids[0].ContainerId != 0 || ids[0].Length != 65536 {
					t.Errorf("%v; want 65536 from %d on", ids, test.want)
				}
			}
		})
	}
}

// TestUserNamespacesApart applies pods with user namespaces, in one command and in several. Their
// ID ranges must not overlap, each pod must keep its range, and the range of a deleted pod must
// become free.
func TestUserNamespacesApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, critest.Version("containerd", "v2.0.0"),
		critest.Handler("", &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}))
	pod := func(name string) string {
		return podText(name, "Always", "hostUsers: false", "containers:", "- {name: app, image: registry.example/app:1}")
	}
	if results, err := r.applyAll(t.Context(), pod("one"), pod("two")); err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(results, err)
	}
	r.mustApply(pod("three"), run.OutcomeCreated)
	want := map[string]uint32{"one": 65536, "two": 2 * 65536, "three": 3 * 65536}
	r.wantRanges(want)
	r.mustApply(pod("two"), run.OutcomeUnchanged)
	r.delete(run.DeleteOptions{}, "one")
	r.mustApply(pod("four"), run.OutcomeCreated)
	delete(want, "one")
	want["four"] = 65536
	r.wantRanges(want)

	// A plan that was made before another podrun process took the range must be harmless.
	e := r.engine()
	targets, _, err := e.Prepare(t.Context(), load(t, pod("five")), run.PrepareOptions{AllowKubelet: true})
	if err != nil {
		t.Fatal(err)
	}
	r.mustApply(pod("six"), run.OutcomeCreated)
	if err := node.Reserve(targets[0].Plan); err == nil || !strings.Contains(err.Error(), "took the range that starts at") {
		t.Errorf("reserve: %v; want an error that the range is in use", err)
	}
	if err := os.RemoveAll(r.layout().Pod(targets[0].Plan.ID.UID)); err != nil {
		t.Fatal(err)
	}
	r.mustDelete()
}

// wantRanges checks the first host ID of each running pod, in its sandbox.
func (r *rig) wantRanges(want map[string]uint32) {
	r.t.Helper()
	all := r.rt.Sandboxes()
	if len(all) != len(want) {
		r.t.Errorf("%d sandboxes, want %d", len(all), len(want))
	}
	for _, s := range all {
		name := s.Config.GetMetadata().GetName()
		ids := s.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetUids()
		if len(ids) != 1 || ids[0].HostId != want[name] {
			r.t.Errorf("pod %s has %v, want IDs from %d on", name, ids, want[name])
		}
	}
}

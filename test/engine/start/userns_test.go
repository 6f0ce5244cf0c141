package start

import (
	"os"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestUserNamespacesApart applies pods with user namespaces, in one command and in several. Their
// ID ranges must not overlap, each pod must keep its range, and the range of a deleted pod must
// become free.
func TestUserNamespacesApart(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critest.Version("containerd", "v2.0.0"),
		critest.Handler("", &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}))
	pod := func(name string) string {
		return rig.PodText(name, "Always", "hostUsers: false", "containers:", "- {name: app, image: registry.example/app:1}")
	}
	if results, err := r.ApplyAll(t.Context(), pod("one"), pod("two")); err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(results, err)
	}
	r.MustApply(pod("three"), run.OutcomeCreated)
	want := map[string]uint32{"one": 65536, "two": 2 * 65536, "three": 3 * 65536}
	wantRanges(r, want)
	r.MustApply(pod("two"), run.OutcomeUnchanged)
	r.Delete(run.DeleteOptions{}, "one")
	r.MustApply(pod("four"), run.OutcomeCreated)
	delete(want, "one")
	want["four"] = 65536
	wantRanges(r, want)

	// A plan that was made before another podrun process took the range must be harmless.
	e := r.Engine()
	targets, _, err := e.Prepare(t.Context(), rig.Load(t, pod("five")), run.PrepareOptions{AllowKubelet: true})
	if err != nil {
		t.Fatal(err)
	}
	r.MustApply(pod("six"), run.OutcomeCreated)
	if err := node.Reserve(targets[0].Plan); err == nil || !strings.Contains(err.Error(), "took the range that starts at") {
		t.Errorf("reserve: %v; want an error that the range is in use", err)
	}
	if err := os.RemoveAll(string(r.Layout().Pod(targets[0].Plan.ID.UID))); err != nil {
		t.Fatal(err)
	}
	r.MustDelete()
}

// wantRanges checks the first host ID of each running pod, in its sandbox.
func wantRanges(r *rig.Host, want map[string]uint32) {
	r.T.Helper()
	all := r.Runtime.Sandboxes()
	if len(all) != len(want) {
		r.T.Errorf("%d sandboxes, want %d", len(all), len(want))
	}
	for _, s := range all {
		name := s.Config.GetMetadata().GetName()
		ids := s.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions().GetUids()
		if len(ids) != 1 || ids[0].HostId != want[name] {
			r.T.Errorf("pod %s has %v, want IDs from %d on", name, ids, want[name])
		}
	}
}

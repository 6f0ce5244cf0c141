package engine

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
)

// TestDeadSandboxesDoNotPileUp covers a pod whose sandbox exits repeatedly, so that podrun creates
// a new one each time. podrun must keep only the latest exited sandbox, for the information about
// the last run (faults.md, F10).
func TestDeadSandboxesDoNotPileUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustApply(one("Always"), run.OutcomeCreated)
	for range 4 {
		for _, sb := range r.rt.Sandboxes() {
			if _, err := r.rt.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sb.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if result := r.apply(one("Always")); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if n := len(r.rt.Sandboxes()); n != 2 {
		t.Errorf("%d sandboxes, want the current one and the one before", n)
	}
	r.oneReadySandbox()
	r.mustDelete()
}

// TestStoppedSandboxIsRemoved checks that after stop and start, podrun keeps the old sandbox while it has
// the last run of a container. The kubelet's garbage collection does the same. podrun must remove a sandbox
// without such a run when the new sandbox runs, and any other sandbox together with its last container.
func TestStoppedSandboxIsRemoved(t *testing.T) {
	t.Parallel()
	for _, profile := range []critest.Profile{critest.Containerd(), critest.CRIO()} {
		t.Run(profile.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, critest.As(profile))
				r.mustApply(one("Always"), run.OutcomeCreated)
				for range 2 {
					r.stopAndStart()
					r.wantSandboxes(2)
				}
				r.exit("app", 1)
				time.Sleep(time.Second)
				r.mustApply(one("Always"), run.OutcomeRestarted)
				r.wantSandboxes(1)
				r.mustDelete()
			})
		})
	}
}

// TestEmptySandboxIsRemoved covers a sandbox in which no container was started. podrun must remove it when
// the next one runs.
func TestEmptySandboxIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(one("Always"), run.OutcomeCreated)
		for _, c := range r.rt.Containers() {
			r.must(r.rt.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: c.ID}))
			r.must(r.rt.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: c.ID}))
		}
		r.stopAndStart()
		r.wantSandboxes(1)
		r.mustDelete()
	})
}

// TestDeadSandboxInAnOutage checks that podrun retries the removal of a stopped sandbox while the
// runtime restarts.
func TestDeadSandboxInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustApply(one("Always"), run.OutcomeCreated)
		r.stopAndStart()
		defer r.rt.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Times: 5})()
		r.stopAndStart()
		r.wantSandboxes(2)
		if calls := r.callsTo("RemovePodSandbox"); calls != 6 {
			t.Errorf("%d calls to RemovePodSandbox, want 6", calls)
		}
		r.mustDelete()
	})
}

func (r *rig) must(_ any, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) stopAndStart() {
	r.t.Helper()
	for _, result := range run.StopPods(r.t.Context(), r.engine(), r.known(), run.DeleteOptions{}) {
		r.must(nil, result.Err)
	}
	results, err := run.StartPods(r.t.Context(), r.engine(), r.known(), run.ApplyOptions{AllowKubelet: true})
	r.must(nil, err)
	for _, result := range results {
		r.must(nil, result.Err)
	}
}

func (r *rig) wantSandboxes(want int) {
	r.t.Helper()
	if got := r.rt.Sandboxes(); len(got) != want {
		r.t.Errorf("%d sandboxes, want %d: %+v", len(got), want, got)
	}
}

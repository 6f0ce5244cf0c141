package stop

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestDeadSandboxesDoNotPileUp covers a pod whose sandbox exits repeatedly, so that podrun creates
// a new one each time. podrun must keep only the latest exited sandbox, for the information about
// the last run (faults.md, F10).
func TestDeadSandboxesDoNotPileUp(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	for range 4 {
		for _, sb := range r.Runtime.Sandboxes() {
			if _, err := r.Runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sb.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if result := r.Apply(rig.Web("Always")); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if n := len(r.Runtime.Sandboxes()); n != 2 {
		t.Errorf("%d sandboxes, want the current one and the one before", n)
	}
	r.OneReadySandbox()
	r.MustDelete()
}

// TestStoppedSandboxIsRemoved checks that after stop and start, podrun keeps the old sandbox while it has
// the last run of a container. The kubelet's garbage collection does the same. podrun must remove a sandbox
// without such a run when the new sandbox runs, and any other sandbox together with its last container.
func TestStoppedSandboxIsRemoved(t *testing.T) {
	t.Parallel()
	for _, profile := range []critest.Profile{critest.Containerd(), critest.CRIO()} {
		t.Run(profile.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, critest.As(profile))
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				for range 2 {
					r.StopAndStart()
					wantSandboxes(r, 2)
				}
				r.Exit("app", 1)
				time.Sleep(time.Second)
				r.MustApply(rig.Web("Always"), run.OutcomeRestarted)
				wantSandboxes(r, 1)
				r.MustDelete()
			})
		})
	}
}

// TestEmptySandboxIsRemoved covers a sandbox in which no container was started. podrun must remove it when
// the next one runs.
func TestEmptySandboxIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		for _, c := range r.Runtime.Containers() {
			r.Must(r.Runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: c.ID}))
			r.Must(r.Runtime.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: c.ID}))
		}
		r.StopAndStart()
		wantSandboxes(r, 1)
		r.MustDelete()
	})
}

// TestDeadSandboxInAnOutage checks that podrun retries the removal of a stopped sandbox while the
// runtime restarts.
func TestDeadSandboxInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		r.StopAndStart()
		defer r.Runtime.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Times: 5})()
		r.StopAndStart()
		wantSandboxes(r, 2)
		if calls := r.CallsTo("RemovePodSandbox"); calls != 6 {
			t.Errorf("%d calls to RemovePodSandbox, want 6", calls)
		}
		r.MustDelete()
	})
}

func wantSandboxes(r *rig.Host, want int) {
	r.T.Helper()
	if got := r.Runtime.Sandboxes(); len(got) != want {
		r.T.Errorf("%d sandboxes, want %d: %+v", len(got), want, got)
	}
}

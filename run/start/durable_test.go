package start

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// TestCheckpointIsDurableBeforeTheFirstContainer covers a podrun process that was killed after it had
// created the sandbox, but before it had synced the checkpoint. The next owner once started containers
// without syncing the checkpoint: after a power failure, these containers had no checkpoint.
func TestCheckpointIsDurableBeforeTheFirstContainer(t *testing.T) {
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	layout := identity.Layout{RootDir: t.TempDir(), RunDir: t.TempDir()}
	p := &prepare.Plan{ID: id, Layout: layout}
	p.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "u"}}
	p.Checkpoint = manifest.Checkpoint{Pod: p.Pod}
	p.Volumes = volume.Plan{ID: id, Layout: layout, Dir: string(layout.Pod(id.UID))}
	p.Sandbox.Config = &runtimeapi.PodSandboxConfig{}
	if err := node.Reserve(p); err != nil {
		t.Fatal(err)
	}
	lock, err := store.NewLocks(layout, "process 1 (podrun test)", func(problem.List) {}).LockPod(t.Context(), id, store.PurposeRun)
	defer lock.Release()
	if err == nil {
		err = lock.Acquire(id.UID, store.PurposeRun, true, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := func() *Starter { return New(lease.New(pod.New(&node.Node{}, p), lock), nil, nil, nil, nil) }
	started := next()
	if err := started.lease.BeforeStart(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		fresh bool
		st    *Starter
		want  bool
	}{
		{"no container was started", true, next(), true},
		{"this process has synced it", true, &Starter{durable: true}, false},
		{"a container was started", false, started, false},
	} {
		if err := lock.Update(func(r *store.OwnerRecord) { r.Fresh = tc.fresh }); err != nil {
			t.Fatal(err)
		}
		// before the first container is started, and before the second
		for i, want := range []bool{tc.want, false} {
			synced := treetest.Syncs(t, func() { err = tc.st.syncCheckpoint(t.Context(), nil) })
			if got := slices.Contains(synced, layout.Pod("u").Checkpoint()); err != nil || got != want {
				t.Errorf("%s: before container %d: synced %q, %v", tc.name, i+1, synced, err)
			}
		}
	}
	if !slices.ContainsFunc(containerSteps, func(s step[*batch]) bool { return s.name == "checkpoint" }) {
		t.Error("the start of a container does not include this step")
	}
}

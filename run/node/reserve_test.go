package node

import (
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/volume"
)

// reservedPlan returns the plan of a new pod with devices and a user namespace, on a host without a
// pods directory.
func reservedPlan(t *testing.T) *prepare.Plan {
	t.Helper()
	layout := identity.Layout{RootDir: t.TempDir()}
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	config := &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}},
	}}}
	p := &prepare.Plan{ID: id, Layout: layout, Devices: map[string][]string{"app": {"vendor.com/gpu=0"}}}
	p.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, UID: "u"}}
	p.Checkpoint = manifest.Checkpoint{Pod: p.Pod}
	p.Volumes = volume.Plan{ID: id, Layout: layout, Dir: string(layout.Pod(id.UID))}
	p.Sandbox.Config = config
	if _, has := p.IDRange(); !has {
		t.Fatal("the plan has no user namespace")
	}
	return p
}

// TestReservationsAreSyncedWithoutTheNodeLock checks that the files with a pod's host ID range and
// devices, and the pod's directory, become durable together with the checkpoint. podrun once synced
// these files under the node's lock, for which all other commands wait.
func TestReservationsAreSyncedWithoutTheNodeLock(t *testing.T) {
	p := reservedPlan(t)
	var err error
	if synced := treetest.Syncs(t, func() { err = Reserve(p) }); len(synced) > 0 || err != nil {
		t.Errorf("under the node's lock: synced %q, %v", synced, err)
	}
	synced := treetest.Syncs(t, func() { err = SyncReserved(p) })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(synced)
	root, dir := p.Layout.RootDir, string(p.Layout.Pod(p.ID.UID))
	want := []string{root, filepath.Join(root, "pods"), dir, filepath.Join(dir, "devices"), filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "userns")}
	if got := slices.Compact(synced); !slices.Equal(got, want) {
		t.Errorf("synced %q, want %q", got, want)
	}
}

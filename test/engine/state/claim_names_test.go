package state

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestUpgradeKeepsServedVolumes covers a volume of --pvc that an earlier release named
// pvc-NAMESPACE-NAME. The volume must keep this name while the pod exists. The pod must be
// unchanged, and its containers must be restarted with the same mount. If --pvc names another
// directory, podrun must replace the pod.
func TestUpgradeKeepsServedVolumes(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dirs := []string{filepath.Join(r.Settings.RootDir, "../one"), filepath.Join(r.Settings.RootDir, "../two")}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(objects *manifest.Objects, want run.Outcome) critest.Container {
		t.Helper()
		results, err := run.ApplyPods(context.Background(), r.Engine(), objects, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
		if err != nil || results[0].Err != nil || results[0].Outcome != want {
			t.Fatalf("apply: %+v, %v; want %s", results, err, want)
		}
		c, _ := r.Runtime.Container("web")
		return c
	}
	served := func(dir string) *manifest.Objects {
		o := rig.Load(t, withClaim("web", "registry.example/web:1"))
		_ = o.ServeClaims(map[string]string{"data": dir})
		return o
	}
	earlier := served(dirs[0])
	for name, pv := range earlier.Volumes {
		delete(earlier.Volumes, name)
		pv.Name = "pvc-default-data"
		earlier.Volumes[pv.Name], earlier.Claims["default/data"].Spec.VolumeName = pv, pv.Name
	}
	was := apply(earlier, run.OutcomeCreated)
	at := rig.MountedAt(t, was, "/data")
	if !strings.HasSuffix(at, "/pvc-default-data") {
		t.Fatalf("the test's volume is at %s", at)
	}
	if now := apply(served(dirs[0]), run.OutcomeUnchanged); now.ID != was.ID {
		t.Errorf("container %s was replaced by %s", was.ID, now.ID)
	}
	r.Exit("web", 1)
	if got := rig.MountedAt(t, apply(served(dirs[0]), run.OutcomeRestarted), "/data"); got != at {
		t.Errorf("/data of the new container is %s, want %s", got, at)
	}
	if got := rig.MountedAt(t, apply(served(dirs[1]), run.OutcomeReplaced), "/data"); got == at || strings.HasSuffix(got, "pvc-default-data") {
		t.Errorf("/data of the new pod is %s", got)
	}
	if claim := r.Pod("web").Spec.Volumes[0].PersistentVolumeClaim; *claim != (corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}) {
		t.Errorf("the pod's claim is %+v", claim)
	}
	r.MustDelete()
}

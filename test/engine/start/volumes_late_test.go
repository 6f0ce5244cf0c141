package start

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestVolumesAfterSandbox covers volumes that podrun creates while the runtime creates the sandbox,
// so that a sandbox may exist without them. No command may start a container before the volumes
// exist.
func TestVolumesAfterSandbox(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const uid = "0f8a1c52-6c5e-4c1e-9d0e-3a5b7c9d1e2f"
	blocked := filepath.Join(string(r.Layout().Pod(uid)), "volumes", "kubernetes.io~empty-dir")
	if err := os.MkdirAll(filepath.Dir(blocked), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blocked, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, volumeMounts: [{name: data, mountPath: /data}]}]",
		"volumes: [{name: data, emptyDir: {}}]"), "name: web", "name: web, uid: "+uid, 1)
	apply := func() error {
		results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, text), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true, KeepOnFailure: true})
		if err != nil {
			return err
		}
		return results[0].Err
	}
	// The second command finds an existing sandbox.
	for range 2 {
		rig.WantErr(t, apply(), problem.Runtime, "pod default/web", "volume data")
		if n := r.CallsTo("CreateContainer"); n != 0 {
			t.Fatalf("%d containers were created without their volume", n)
		}
		r.OneReadySandbox()
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if err := apply(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(blocked + "/data"); err != nil || !info.IsDir() {
		t.Errorf("the volume: %v", err)
	}
	if n := r.CallsTo("RunPodSandbox"); n != 1 {
		t.Errorf("%d sandboxes were created", n)
	}
	r.MustDelete()
}

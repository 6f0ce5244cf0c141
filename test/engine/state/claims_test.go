package state

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/volume"
)

// withClaim returns a pod that uses the claim data.
func withClaim(name, image string) string {
	return rig.PodText(name, "Always", "containers: [{name: "+name+", image: "+image+", volumeMounts: [{name: data, mountPath: /data}]}]",
		"volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")
}

// claimRig returns a host with --pvc-dir, whose claim data contains a file, and pods that
// use it.
func claimRig(t *testing.T, pods ...string) (r *rig.Host, file string, byName map[string]run.Result) {
	t.Helper()
	r = rig.New(t)
	r.Settings.ClaimDir = filepath.Join(r.Settings.RootDir, "../claims")
	byName = map[string]run.Result{}
	for _, name := range pods {
		byName[name] = r.MustApply(withClaim(name, "registry.example/app:1"), run.OutcomeCreated)
	}
	file = filepath.Join(r.Settings.ClaimDir, "default_data", "file")
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return r, file, byName
}

// TestDeleteVolumesTogether deletes two pods that share a claim with one command. podrun must
// delete the claim with the last pod.
func TestDeleteVolumesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, file, _ := claimRig(t, "app", "web")
		r.NoError(r.Delete(run.DeleteOptions{DeleteVolumes: true}))
		if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
			t.Errorf("the claim is left: %v", err)
		}
		r.NothingLeft()
	})
}

// TestDeleteVolumesKeepsThoseOfARefusedPod covers a command that does not delete one of its
// pods. The data of the shared claim must remain, even if that pod's volume is not mounted, as
// after a reboot. A delete of that pod completes the deletion.
func TestDeleteVolumesKeepsThoseOfARefusedPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, file, pods := claimRig(t, "app", "web")
		web := pods["web"].ID
		if err := volume.Unmount(t.Context(), r.Layout(), web.UID); err != nil {
			t.Fatal(err)
		}
		for _, sb := range r.Runtime.Sandboxes() {
			if sb.Config.Metadata.Name == "web" {
				if err := r.Runtime.Client().RemovePodSandbox(t.Context(), sb.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		rig.CreateForeignPod(t, r.Runtime, web, true)
		results := r.Delete(run.DeleteOptions{DeleteVolumes: true})
		for _, result := range results {
			if result.ID.Name == "app" {
				if result.Err != nil {
					t.Error(result.Err)
				}
				continue
			}
			rig.WantErr(t, result.Err, problem.Refused, "pod default/web", "was not created by podrun")
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("the data of a pod that was not deleted: %v", err)
		}
		for _, sb := range r.Runtime.Sandboxes() {
			if err := r.Runtime.Client().RemovePodSandbox(t.Context(), sb.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.NoError(r.Delete(run.DeleteOptions{DeleteVolumes: true}))
		if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
			t.Errorf("the claim is left: %v", err)
		}
		r.NothingLeft()
	})
}

// TestDeleteVolumesKeepsThoseOfALaterPod covers a pod that another command creates while podrun
// is stopping the deleted one. The data of their shared claim must remain.
func TestDeleteVolumesKeepsThoseOfALaterPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, file, _ := claimRig(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		r.MustApply(withClaim("app", "registry.example/app:1"), run.OutcomeCreated)
		known := r.Known()
		done := make(chan []run.Result, 1)
		go func() {
			results, _ := run.DeletePods(t.Context(), r.Engine(), known, run.DeleteOptions{DeleteVolumes: true})
			done <- results
		}()
		time.Sleep(10 * time.Second)
		later := r.MustApply(withClaim("web", "registry.example/app:1"), run.OutcomeCreated)
		// The claim is not mounted yet, as while the pod's image is being pulled.
		if err := unix.Unmount(r.Layout().Pod(later.ID.UID).Volume("kubernetes.io~local-volume", "default_data"), 0); err != nil {
			t.Fatal(err)
		}
		for _, result := range <-done {
			if result.Err != nil {
				t.Error(result.Err)
			}
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("the data of a pod that was created during the delete: %v", err)
		}
		r.MustDelete()
	})
}

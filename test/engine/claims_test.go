package engine

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
	"github.com/podrun/podrun/volume"
)

// withClaim returns a pod that uses the claim data.
func withClaim(name, image string) string {
	return podText(name, "Always", "containers: [{name: "+name+", image: "+image+", volumeMounts: [{name: data, mountPath: /data}]}]",
		"volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")
}

// claimRig returns a host with --pvc-dir, whose claim data contains a file, and pods that
// use it.
func claimRig(t *testing.T, pods ...string) (r *rig, file string, byName map[string]run.Result) {
	t.Helper()
	r = newRig(t)
	r.settings.ClaimDir = filepath.Join(r.settings.RootDir, "../claims")
	byName = map[string]run.Result{}
	for _, name := range pods {
		byName[name] = r.mustApply(withClaim(name, "registry.example/app:1"), run.OutcomeCreated)
	}
	file = filepath.Join(r.settings.ClaimDir, "default_data", "file")
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
		r.noError(r.delete(run.DeleteOptions{DeleteVolumes: true}))
		if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
			t.Errorf("the claim is left: %v", err)
		}
		r.nothingLeft()
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
		if err := volume.Unmount(t.Context(), r.layout(), web.UID); err != nil {
			t.Fatal(err)
		}
		for _, sb := range r.rt.Sandboxes() {
			if sb.Config.Metadata.Name == "web" {
				if err := r.rt.Client().RemovePodSandbox(t.Context(), sb.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		createForeignPod(t, r.rt, web, true)
		results := r.delete(run.DeleteOptions{DeleteVolumes: true})
		for _, result := range results {
			if result.ID.Name == "app" {
				if result.Err != nil {
					t.Error(result.Err)
				}
				continue
			}
			wantErr(t, result.Err, problem.Refused, "pod default/web", "was not created by podrun")
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("the data of a pod that was not deleted: %v", err)
		}
		for _, sb := range r.rt.Sandboxes() {
			if err := r.rt.Client().RemovePodSandbox(t.Context(), sb.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.noError(r.delete(run.DeleteOptions{DeleteVolumes: true}))
		if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
			t.Errorf("the claim is left: %v", err)
		}
		r.nothingLeft()
	})
}

// TestDeleteVolumesKeepsThoseOfALaterPod covers a pod that another command creates while podrun
// is stopping the deleted one. The data of their shared claim must remain.
func TestDeleteVolumesKeepsThoseOfALaterPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, file, _ := claimRig(t)
		r.rt.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		r.mustApply(withClaim("app", "registry.example/app:1"), run.OutcomeCreated)
		known := r.known()
		done := make(chan []run.Result, 1)
		go func() {
			results, _ := run.DeletePods(t.Context(), r.engine(), known, run.DeleteOptions{DeleteVolumes: true})
			done <- results
		}()
		time.Sleep(10 * time.Second)
		later := r.mustApply(withClaim("web", "registry.example/app:1"), run.OutcomeCreated)
		// The claim is not mounted yet, as while the pod's image is being pulled.
		if err := unix.Unmount(r.layout().Volume(later.ID.UID, "kubernetes.io~local-volume", "default_data"), 0); err != nil {
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
		r.mustDelete()
	})
}

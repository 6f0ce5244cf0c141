package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

const dataClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: \"\", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"

// hostVolume returns a PersistentVolume with the given source, and its claim.
func hostVolume(source string, more ...string) string {
	return "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv, annotations: {podrun.dev/volume-origin: settings}}\n" +
		"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, " + strings.Join(append(more, source), ", ") + "}\n---\n" + dataClaim
}

// TestServeKeepsVolumeOfManifest covers a pod with a volume of the host that was started before the settings, or
// a release, forbade this. It keeps running, with one event, and its next change is refused.
func TestServeKeepsVolumeOfManifest(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		dir := filepath.Join(s.Settings.RootDir, "../data")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		with := func(image string) string {
			return withClaim("web", image) + "\n---\n" + hostVolume("hostPath: {path: "+dir+"}")
		}
		s.Files.Write(rig.File("web"), with("registry.example/app:1"))
		time.Sleep(5 * time.Second)
		web := s.Running("web")
		s.Settings.PodSecurity = "baseline"
		forbidden := func() (n int) {
			events, err := store.ReadJournal(s.Layout(), string(s.Pod("web").UID))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Reason == "HostPathOfManifest" && e.Type == corev1.EventTypeWarning {
					n++
				}
			}
			return n
		}
		for range 2 {
			s.Restart()
			time.Sleep(time.Minute)
			if s.Same(web); forbidden() != 1 {
				t.Errorf("%d events, want 1: %q", forbidden(), s.Reasons())
			}
		}
		s.Exit("web", 1)
		time.Sleep(time.Minute)
		again := s.Running("web")
		s.Files.Write(rig.File("web"), with("registry.example/app:2"))
		time.Sleep(time.Minute)
		s.Same(again)
		if got := s.Pod("web").Spec.Containers[0].Image; got != "registry.example/app:1" {
			t.Errorf("the pod has the image %s", got)
		}
		if results, err := rig.RestartPods(t.Context(), s.Engine(), s.Known("web"), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}); err == nil && results[0].Err == nil {
			t.Errorf("restart: %+v", results)
		}
		s.Same(again)
	})
}

// TestChangeKeepsVolumeOfAPIServer checks that a volume of an API server is still known as such when a pod is
// started from its checkpoint.
func TestChangeKeepsVolumeOfAPIServer(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Settings.PodSecurity = "baseline"
	dir := filepath.Join(r.Settings.RootDir, "../data")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	objects := rig.Load(t, withClaim("web", "registry.example/app:1"), hostVolume("hostPath: {path: "+dir+"}"))
	objects.Volumes["pv"] = manifest.OfAPIServer(objects.Volumes["pv"])
	results, err := run.ApplyPods(t.Context(), r.Engine(), objects, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	c, err := store.ReadCheckpoint(r.Layout(), results[0].ID.UID)
	if err != nil || manifest.InManifest(c.Volumes[0]) {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, v := range c.References().Volumes {
		if len(v.Annotations) > 0 {
			t.Errorf("annotations %v", v.Annotations)
		}
	}
	_, problems, err := r.Engine().Prepare(t.Context(), c.Objects(), node.PrepareOptions{AllowKubelet: true, Force: true})
	if err != nil || len(problems.Errors()) > 0 {
		t.Error(problems, err)
	}
	r.MustDelete()
}

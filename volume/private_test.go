package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/test/ring"
)

// privateScene is a claim whose path a container can change between the admission of its pod and a start, and a
// private directory.
type privateScene struct {
	base, path, private string
	plan                Plan
}

func newPrivateScene(t *testing.T, local bool) *privateScene {
	t.Helper()
	ring.RequireRoot(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &privateScene{base: base, path: base + "/srv/data", private: base + "/private"}
	treetest.Write(t, s.path+"/file")
	treetest.Write(t, s.private+"/pods/secret")
	source := corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.path}}
	if local {
		source = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: s.path}}
	}
	// A volume without fsGroup: if the check failed, podrun must not change files that the volume exposes.
	in := input(podOf(t, "containers: [{name: app, volumeMounts: [{name: data, mountPath: /data}]}]\nvolumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"))
	in.Layout, in.Private = identity.Layout{RootDir: base + "/root"}, []string{s.private, base + "/missing"}
	in.Claims = map[string]*corev1.PersistentVolumeClaim{"data": {Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}}
	in.PersistentVolumes = map[string]*corev1.PersistentVolume{"pv": {ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}}
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s.plan = plan
	t.Cleanup(func() {
		if err := remove1(plan); err != nil {
			t.Error(err)
		}
	})
	return s
}

// replace replaces a path with a symlink.
func replaceByLink(t *testing.T, path, target string) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".old"), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
}

func mountAt(t *testing.T, source, target string) {
	t.Helper()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
}

// TestSwappedHostPath covers a path of the host that changes after admission has checked it: an init container of
// another pod replaces it, or a directory in it, with a symlink, or its content has another name. The volume must not
// expose a private directory.
func TestSwappedHostPath(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *privateScene){
		"the private directory": func(t *testing.T, s *privateScene) { replaceByLink(t, s.path, s.private) },
		"inside it":             func(t *testing.T, s *privateScene) { replaceByLink(t, s.path, s.private+"/pods") },
		"a relative symlink":    func(t *testing.T, s *privateScene) { replaceByLink(t, s.path, "../private") },
		"above it":              func(t *testing.T, s *privateScene) { replaceByLink(t, s.path, s.base) },
		"a parent": func(t *testing.T, s *privateScene) {
			replaceByLink(t, s.base+"/srv", s.private)
			treetest.Write(t, s.private+"/data/x")
		},
		"a chain": func(t *testing.T, s *privateScene) {
			replaceByLink(t, s.path, s.base+"/link")
			os.Symlink("private", s.base+"/link")
		},
		"a bind mount":          func(t *testing.T, s *privateScene) { mountAt(t, s.private+"/pods", s.path) },
		"a bind mount above it": func(t *testing.T, s *privateScene) { mountAt(t, s.base, s.path) },
		"a bind mount inside it": func(t *testing.T, s *privateScene) {
			treetest.Write(t, s.path+"/in/x")
			mountAt(t, s.private, s.path+"/in")
		},
		"a magic link": func(t *testing.T, s *privateScene) { replaceByLink(t, s.path, "/proc/self/root"+s.private) },
		"a loop":       func(t *testing.T, s *privateScene) { replaceByLink(t, s.path, "data") },
	} {
		for _, kind := range []string{"local", "hostPath"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := newPrivateScene(t, kind == "local")
				change(t, s)
				err := Apply(t.Context(), s.plan)
				if err == nil || name != "a loop" && !strings.Contains(err.Error(), "exposes "+s.private) {
					t.Errorf("error %v", err)
				}
				if mounts := mountsBelow(t, s.plan.Dir); len(mounts) > 0 {
					t.Errorf("mounted: %v", mounts)
				}
			})
		}
	}
}

// TestMountedHostPath checks that a path that exposes nothing is mounted, with the mounts below it, that a later change
// of the path has no effect, and that podrun unmounts nothing of the host.
func TestMountedHostPath(t *testing.T) {
	for _, kind := range []string{"local", "hostPath", "a symlink", "a file"} {
		t.Run(kind, func(t *testing.T) {
			s := newPrivateScene(t, kind == "local")
			v := &s.plan.Volumes[0]
			file := "/file"
			switch kind {
			case "a symlink":
				replaceByLink(t, s.path, s.path+".old")
			case "a file":
				v.Setup.HostPath.Source, file = s.path+"/file", ""
			}
			treetest.Write(t, s.path+"/sub/x")
			treetest.Write(t, s.base+"/other/y")
			mountAt(t, s.base+"/other", s.path+"/sub")
			for range 2 {
				if err := Apply(t.Context(), s.plan); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Stat(v.HostPath + file); err != nil {
				t.Error(err)
			}
			if kind == "hostPath" || kind == "a symlink" {
				wantIntact(t, v.HostPath+"/sub/y")
			}
			if err := os.Rename(s.base+"/srv", s.base+"/moved"); err != nil {
				t.Fatal(err)
			}
			if err := Apply(t.Context(), s.plan); err != nil {
				t.Error(err)
			}
			if err := os.Rename(s.base+"/moved", s.base+"/srv"); err != nil {
				t.Fatal(err)
			}
			if err := remove1(s.plan); err != nil {
				t.Fatal(err)
			}
			wantGone(t, s.plan)
			wantIntact(t, s.base+"/other/y")
			if n := len(mountsBelow(t, s.base)); n != 1 {
				t.Errorf("%d mounts of the host, want 1", n)
			}
		})
	}
}

// TestProvisionedClaimInRootDir checks that the directory of claims may be in podrun's root directory, but that nothing
// may redirect it.
func TestProvisionedClaimInRootDir(t *testing.T) {
	in := Input{Private: []string{"/var/lib/podrun", "/run/podrun", "/"}}
	if got := strings.Join(in.privateFor("/var/lib/podrun/claims/default_data"), " "); got != "/run/podrun" {
		t.Error(got)
	}
	if got := in.privateFor("/srv/claims/default_data"); len(got) != 2 {
		t.Error(got)
	}
}

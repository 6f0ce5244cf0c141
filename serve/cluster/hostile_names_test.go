package cluster

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHostileNames covers names of an API server that would leave podrun's directories as paths. podrun
// must refuse the pods, and must not create a file outside of these directories.
func TestHostileNames(t *testing.T) {
	clusterTest(t, func(t *testing.T, r *rig) {
		const up = "../../../../../escape"
		r.settings.PodSecurity = "baseline"
		r.create(
			bound("container", func(p *corev1.Pod) { p.Spec.Containers[0].Name = up }),
			bound("init", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "../escape", Image: "registry.example/app:1"}}
			}),
			bound("dots", func(p *corev1.Pod) { p.Spec.Containers[0].Name = ".." }),
			bound("volume", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: up, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			}),
			bound("uid", func(p *corev1.Pod) { p.UID = types.UID(up) }),
			bound("../../escape", func(p *corev1.Pod) { p.UID = "uid-of-name" }),
			bound("key", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}}}}
			}),
			bound("path", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "good"},
					Items: []corev1.KeyToPath{{Key: "a", Path: "x/../../escape"}}}}}}
			}),
			&corev1.ConfigMap{ObjectMeta: bound("keys").ObjectMeta, Data: map[string]string{"../../escape": "x"}},
			&corev1.ConfigMap{ObjectMeta: bound("good").ObjectMeta, Data: map[string]string{"a": "x"}},
		)
		for _, name := range []string{"container", "init", "dots", "volume", "uid", "../../escape"} {
			r.wantPhase(name, corev1.PodFailed)
		}
		for _, name := range []string{"key", "path"} {
			if r.runs(name) {
				t.Errorf("container %s runs", name)
			}
		}
		base := filepath.Dir(r.settings.RootDir)
		err := filepath.WalkDir(filepath.Dir(base), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(path, "escape") && filepath.Dir(path) != filepath.Join(r.settings.RootDir, "locks") {
				t.Errorf("%s exists", path)
			}
			if err == nil && d.Name() != filepath.Base(base) && filepath.Dir(path) == filepath.Dir(base) {
				t.Errorf("%s is beside podrun's directories", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

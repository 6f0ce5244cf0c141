package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/volume"
)

// ProvisionedClaims are the claims of a stored pod that have directories of their own
// (volume.Provision), by path. An error means that the pod's checkpoint is corrupt.
func ProvisionedClaims(layout identity.Layout, uid string) (map[string]*corev1.PersistentVolumeClaim, error) {
	c, err := ViewCheckpoint(layout, uid)
	if c == nil || err != nil {
		return nil, err
	}
	out := map[string]*corev1.PersistentVolumeClaim{}
	volumes := c.Objects().Volumes
	for _, claim := range c.Claims {
		if pv := volumes[claim.Spec.VolumeName]; pv != nil {
			if path := volume.ProvisionedPath(pv); path != "" {
				out[path] = claim
			}
		}
	}
	return out, nil
}

// KeptClaims are the claims that have directories in dir, by path, with nothing but their
// names; none if dir is empty or missing.
func KeptClaims(dir string) (map[string]*corev1.PersistentVolumeClaim, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the directories of claims: %w", err)
	}
	out := map[string]*corev1.PersistentVolumeClaim{}
	for _, e := range entries {
		if namespace, name, ok := volume.ProvisionedFor(e.Name()); ok && e.IsDir() {
			out[filepath.Join(dir, e.Name())] = &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: e.Name()}}
		}
	}
	return out, nil
}

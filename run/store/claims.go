package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/volume"
)

// ProvisionedClaims returns the claims of a stored pod for which podrun created directories
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

// ClaimsOfOthers maps the path of each claim directory that other stored pods use to one of these
// pods. It omits the pod that id identifies, pods of other namespaces, and pods whose UID is in
// except. The error is of kind Refused if the checkpoint of a pod of this namespace cannot be read,
// even if the pod is in except.
func ClaimsOfOthers(layout identity.Layout, id identity.Pod, except map[string]bool) (map[string]identity.Pod, error) {
	pods, err := StoredPods(layout)
	if err != nil {
		return nil, err
	}
	out := map[string]identity.Pod{}
	for _, other := range pods {
		if other.UID == id.UID || other.Namespace != "" && other.Namespace != id.Namespace {
			continue
		}
		used, err := ProvisionedClaims(layout, other.UID)
		if err != nil {
			return nil, &problem.Error{Kind: problem.Refused, Object: "pod " + id.String(),
				Err:  fmt.Errorf("cannot determine which claims pod %s uses: its checkpoint cannot be read", other),
				Hint: "delete pod " + other.String() + " first, or omit --delete-volumes"}
		}
		for path := range used {
			if !except[other.UID] {
				out[path] = other
			}
		}
	}
	return out, nil
}

// KeptClaims returns the claims that have directories in dir, by path. The claims contain only
// their names. It returns no claims if dir is "" or does not exist.
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

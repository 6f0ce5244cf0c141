package volume

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Provision returns a claim, and the PersistentVolume to which the claim is bound: a directory
// below dir. It is for claims that match no volume in the input. The argument claim is nil if the
// input does not contain the claim. Provision returns an error if the claim cannot have a
// directory. The claim's name comes from a pod, where the API does not validate it, and would
// become part of a path that root owns.
func Provision(dir, namespace, name string, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	if claim == nil {
		claim = &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	base := provisionedName(namespace, name)
	switch {
	case len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
		return nil, nil, fmt.Errorf("%q is not a valid name of a claim", name)
	case len(base) > maxFileName:
		return nil, nil, fmt.Errorf("the claim's directory would have a name of %d bytes, more than the limit of %d", len(base), maxFileName)
	case mode(claim.Spec.VolumeMode) == corev1.PersistentVolumeBlock:
		return nil, nil, fmt.Errorf("the claim requires a block device, but --pvc-dir provides directories")
	}
	claim = claim.DeepCopy()
	claim.Spec.VolumeName = base
	return claim, &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: base},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(dir, base)}},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name},
		},
	}, nil
}

// maxFileName is Linux's NAME_MAX, in bytes.
const maxFileName = 255

// provisionedName returns the name of a claim's directory and PersistentVolume. No
// PersistentVolume of the input can have the same name, because the API does not allow '_' in
// names.
func provisionedName(namespace, claim string) string { return namespace + "_" + claim }

// ProvisionedFor returns the namespace and name of the claim to which a directory with the given
// name belongs. It returns false for any other name.
func ProvisionedFor(name string) (namespace, claim string, ok bool) {
	namespace, claim, ok = strings.Cut(name, "_")
	return namespace, claim, ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(claim)) == 0
}

// ProvisionedPath returns the directory of a PersistentVolume that Provision returned. It
// returns "" for any other PersistentVolume.
func ProvisionedPath(pv *corev1.PersistentVolume) string {
	if _, _, ok := ProvisionedFor(pv.Name); !ok || pv.Spec.Local == nil || filepath.Base(pv.Spec.Local.Path) != pv.Name {
		return ""
	}
	return pv.Spec.Local.Path
}

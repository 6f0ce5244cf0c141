package manifest

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
)

// withVolumeOrigin records where a PersistentVolume comes from, if it does not come from a manifest: the settings of
// this host, or an API server. The record is an annotation, so that it is also in the pod's checkpoint.
func withVolumeOrigin(pv *corev1.PersistentVolume, origin string) *corev1.PersistentVolume {
	pv.Annotations = maps.Clone(pv.Annotations)
	if pv.Annotations == nil {
		pv.Annotations = map[string]string{}
	}
	pv.Annotations[identity.AnnotationVolumeOrigin] = origin
	return pv
}

// withoutVolumeOrigin removes the record of withVolumeOrigin. Only podrun may write it: an author of a manifest could
// otherwise claim that the host's administrator has defined a volume.
func withoutVolumeOrigin(pv *corev1.PersistentVolume) {
	if _, has := pv.Annotations[identity.AnnotationVolumeOrigin]; has {
		pv.Annotations = maps.Clone(pv.Annotations)
		delete(pv.Annotations, identity.AnnotationVolumeOrigin)
	}
}

// InManifest reports whether a manifest may have defined a PersistentVolume. It returns false for volumes of the
// settings (--pvc, --pvc-dir) and of an API server. An older release did not record the origin in a checkpoint. It gave
// volumes of the settings names with '_', which are invalid in a manifest.
func InManifest(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[identity.AnnotationVolumeOrigin] == "" && !strings.Contains(pv.Name, "_")
}

// OfAPIServer returns a PersistentVolume of an API server, with the metadata that podrun keeps. It does not change its
// argument.
func OfAPIServer(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	out := pv.DeepCopy()
	out.ObjectMeta = APIServerMeta(out.ObjectMeta)
	out.Status = corev1.PersistentVolumeStatus{}
	return withVolumeOrigin(out, identity.VolumeOfAPIServer)
}

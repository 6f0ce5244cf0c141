package prepare

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/volume"
)

// hostPathsOf returns the host paths of a pod's hostPath and claim volumes, without the directories
// that podrun provisions for claims.
func hostPathsOf(pod *corev1.Pod, objects *manifest.Objects) []admission.HostPath {
	var out []admission.HostPath
	for i, v := range pod.Spec.Volumes {
		switch field := fmt.Sprintf("spec.volumes[%d]", i); {
		case v.HostPath != nil:
			out = append(out, admission.HostPath{Field: field + ".hostPath.path", Path: v.HostPath.Path})
		case v.PersistentVolumeClaim != nil:
			claim := objects.Claims[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
			if claim == nil {
				continue
			}
			if pv := objects.Volumes[claim.Spec.VolumeName]; pv != nil && pathOf(pv) != "" && volume.ProvisionedPath(pv) == "" {
				out = append(out, admission.HostPath{Field: field + ".persistentVolumeClaim.claimName", Path: pathOf(pv),
					Volume: pv.Name, InManifest: manifest.InManifest(pv)})
			}
		}
	}
	return out
}

// ForbiddenVolumes returns an event for each volume of a pod on this host that the settings forbid for a new pod.
func ForbiddenVolumes(c manifest.Checkpoint, s nodeconfig.Settings) []event.Event {
	return admission.Forbidden(hostPathsOf(c.Pod, c.Objects()), s)
}

func pathOf(pv *corev1.PersistentVolume) string {
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.HostPath != nil:
		return s.HostPath.Path
	case s.Local != nil:
		return s.Local.Path
	}
	return ""
}

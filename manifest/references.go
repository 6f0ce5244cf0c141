package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
)

// References returns the objects to which the pod of a checkpoint refers, without the pod, in a form that
// an API server accepts. It omits volumes that podrun made for claims (--pvc, --pvc-dir), because their
// names are not valid. It also omits claims that podrun made because the input did not have them. If
// another claim is bound to such a volume, References returns the claim unbound.
func (c Checkpoint) References() *Objects {
	out := c.Objects()
	out.Pods = nil
	for name, v := range out.Volumes {
		if !validVolume(v) {
			delete(out.Volumes, name)
			continue
		}
		v = v.DeepCopy()
		withoutVolumeOrigin(v)
		out.Volumes[name] = v
	}
	for key, claim := range out.Claims {
		if out.Volumes[claim.Spec.VolumeName] == nil {
			claim = claim.DeepCopy()
			claim.Spec.VolumeName = ""
			out.Claims[key] = claim
		}
		if !validClaim(claim) {
			delete(out.Claims, key)
		}
	}
	return out
}

func validVolume(v *corev1.PersistentVolume) bool {
	var internal core.PersistentVolume
	return coredefaults.Convert_v1_PersistentVolume_To_core_PersistentVolume(v.DeepCopy(), &internal, nil) == nil &&
		len(corevalidation.ValidatePersistentVolume(&internal, corevalidation.ValidationOptionsForPersistentVolume(&internal, nil))) == 0
}

func validClaim(claim *corev1.PersistentVolumeClaim) bool {
	var internal core.PersistentVolumeClaim
	return coredefaults.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(claim.DeepCopy(), &internal, nil) == nil &&
		len(corevalidation.ValidatePersistentVolumeClaim(&internal, corevalidation.ValidationOptionsForPersistentVolumeClaimCreate())) == 0
}

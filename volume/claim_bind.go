package volume

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Bind binds claims to volumes as the volume controller of a cluster would. It returns copies of
// the claims with spec.volumeName set. The keys are namespace/name. A claim that no volume fits
// remains unbound. Bind is deterministic, because it processes the claims in the order of their
// names. Each claim gets the smallest volume that fits, but a volume that is reserved for the claim
// (claimRef) takes precedence.
func Bind(claims map[string]*corev1.PersistentVolumeClaim, volumes map[string]*corev1.PersistentVolume) map[string]*corev1.PersistentVolumeClaim {
	out := make(map[string]*corev1.PersistentVolumeClaim, len(claims))
	taken := map[string]bool{}
	keys, names := slices.Sorted(maps.Keys(claims)), slices.Sorted(maps.Keys(volumes))
	for _, key := range keys {
		out[key] = claims[key].DeepCopy()
		if name := claims[key].Spec.VolumeName; name != "" {
			taken[name] = true
		}
	}
	for _, key := range keys {
		claim := out[key]
		if claim.Spec.VolumeName != "" {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
		if claim.Spec.Selector == nil {
			selector = labels.Everything()
		}
		if err != nil {
			// A claim with an invalid selector matches no volume.
			continue
		}
		var best *corev1.PersistentVolume
		for _, name := range names {
			if pv := volumes[name]; !taken[name] && fits(claim, selector, pv) && (best == nil || better(pv, best)) {
				best = pv
			}
		}
		if best != nil {
			claim.Spec.VolumeName = best.Name
			taken[best.Name] = true
		}
	}
	return out
}

// fits reports whether a volume meets a claim's requirements.
func fits(claim *corev1.PersistentVolumeClaim, selector labels.Selector, pv *corev1.PersistentVolume) bool {
	if r := pv.Spec.ClaimRef; r != nil && (r.Namespace != claim.Namespace || r.Name != claim.Name) {
		return false
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			return false
		}
	}
	want, have := claim.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return have.Cmp(want) >= 0 && pv.Spec.StorageClassName == class &&
		mode(claim.Spec.VolumeMode) == mode(pv.Spec.VolumeMode) && selector.Matches(labels.Set(pv.Labels))
}

func mode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func better(a, b *corev1.PersistentVolume) bool {
	if (a.Spec.ClaimRef != nil) != (b.Spec.ClaimRef != nil) {
		return a.Spec.ClaimRef != nil
	}
	x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return x.Cmp(y) < 0
}

// WhyUnbound returns the requirements of a claim that no volume meets.
func WhyUnbound(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.VolumeName != "" {
		return fmt.Sprintf("there is no PersistentVolume %s", claim.Spec.VolumeName)
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	class := "none"
	if c := claim.Spec.StorageClassName; c != nil && *c != "" {
		class = *c
	}
	return fmt.Sprintf("the claim requests %s, access modes %v, storage class %s", size.String(), claim.Spec.AccessModes, class)
}

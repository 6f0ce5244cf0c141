package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podrun/podrun/internal/identity"
)

// ServeClaims binds claims to volumes that are paths of this host. The map paths has the paths
// by the names of the claims. The claims are in the namespaces of the pods that use them.
// ServeClaims returns those names that no pod uses. If containers use a path as a device, its
// volume is a block volume.
func (o *Objects) ServeClaims(paths map[string]string) (unused []string) {
	used := map[string]bool{}
	for _, p := range o.Pods {
		for i := range p.Object.Spec.Volumes {
			v := &p.Object.Spec.Volumes[i]
			if v.PersistentVolumeClaim == nil {
				continue
			}
			name := v.PersistentVolumeClaim.ClaimName
			if path, ok := paths[name]; ok {
				used[name] = true
				o.serveClaim(p.Object.Namespace, name, path, isDevice(p.Object, v.Name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	return unused
}

func (o *Objects) serveClaim(namespace, name, path string, block bool) {
	mode := corev1.PersistentVolumeFilesystem
	if block {
		mode = corev1.PersistentVolumeBlock
	}
	pv := withVolumeOrigin(&corev1.PersistentVolume{
		TypeMeta: typeMeta("v1", "PersistentVolume"), ObjectMeta: metav1.ObjectMeta{Name: servedName(namespace, name)},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			VolumeMode:             &mode,
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name},
		},
	}, identity.VolumeOfSettings)
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   typeMeta("v1", "PersistentVolumeClaim"),
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
	if have := o.Claims[namespace+"/"+name]; have != nil {
		claim = have.DeepCopy()
	}
	claim.Spec.VolumeName = pv.Name
	o.Claims[namespace+"/"+name] = claim
	o.Volumes[pv.Name] = pv
}

// servedName returns the name of the PersistentVolume of a claim that ServeClaims binds. No
// volume of an input, and no other claim's volume, has this name. The API does not allow '_' in
// the names of volumes, namespaces and claims. The names of volume.Provision differ from it,
// too.
func servedName(namespace, claim string) string { return "pvc_" + namespace + "_" + claim }

// earlierServedName returns the name that earlier releases used. It is ambiguous: a-b/c and a/b-c
// have the same name.
func earlierServedName(namespace, claim string) string { return "pvc-" + namespace + "-" + claim }

// KeepServedNames returns o with volume names from c, the checkpoint of the existing pod. An
// earlier release may have named the volume of a claim that ServeClaims binds. If the volume is
// otherwise the same, it keeps this name, because the name is part of the path at which the
// volume is mounted. KeepServedNames does not change o.
func (c Checkpoint) KeepServedNames(o *Objects) *Objects {
	out := *o
	for _, was := range c.Claims {
		key, earlier := was.Namespace+"/"+was.Name, earlierServedName(was.Namespace, was.Name)
		claim := out.Claims[key]
		if claim == nil || was.Spec.VolumeName != earlier || claim.Spec.VolumeName != servedName(was.Namespace, was.Name) || o.Volumes[earlier] != nil {
			continue
		}
		pv := out.Volumes[claim.Spec.VolumeName]
		if pv == nil || !slices.ContainsFunc(c.Volumes, func(v *corev1.PersistentVolume) bool { return v.Name == earlier && sameVolume(v, pv) }) {
			continue
		}
		claim, pv = claim.DeepCopy(), pv.DeepCopy()
		claim.Spec.VolumeName = earlier
		pv.Name = earlier
		out.Claims, out.Volumes = maps.Clone(out.Claims), maps.Clone(out.Volumes)
		out.Claims[key], out.Volumes[earlier] = claim, pv
	}
	return &out
}

// isDevice reports whether containers use a volume as a device.
func isDevice(pod *corev1.Pod, volume string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume }) {
				return true
			}
		}
	}
	return false
}

// ParseClaim parses NAME=PATH. It validates the name, because the name becomes part of a path
// that root owns.
func ParseClaim(text string) (name, path string, err error) {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" {
		return "", "", fmt.Errorf("%q is not NAME=DIR", text)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", fmt.Errorf("%q is not a valid name of a claim", name)
	}
	return name, path, nil
}

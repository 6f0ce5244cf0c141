package manifest

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/podrun/podrun/internal/credential"
)

// Referred returns a pod with the objects to which it refers, sorted by name. It omits missing
// objects.
func Referred(pod *corev1.Pod, o *Objects) Checkpoint {
	if o == nil {
		o = &Objects{}
	}
	r := references{configMaps: map[string]bool{}, secrets: map[string]bool{}, claims: map[string]bool{}}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r.container(&list[i])
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		r.container((*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for i := range pod.Spec.Volumes {
		r.volume(&pod.Spec.Volumes[i].VolumeSource)
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		r.secrets[s.Name] = true
	}
	c := Checkpoint{
		Pod:        pod,
		ConfigMaps: pick(o.ConfigMaps, pod.Namespace, r.configMaps),
		Secrets:    pick(o.Secrets, pod.Namespace, r.secrets),
		Claims:     pick(o.Claims, pod.Namespace, r.claims),
	}
	for _, claim := range c.Claims {
		if v := o.Volumes[claim.Spec.VolumeName]; v != nil {
			c.Volumes = append(c.Volumes, v)
		}
	}
	if name := pod.Spec.RuntimeClassName; name != nil {
		c.RuntimeClass = o.RuntimeClasses[*name]
	}
	return c
}

// pick returns the objects with these names, sorted by name.
func pick[T any](from map[string]T, namespace string, names map[string]bool) []T {
	var out []T
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if o, ok := from[namespace+"/"+name]; ok {
			out = append(out, o)
		}
	}
	return out
}

// references contains the names of the objects to which a pod refers.
type references struct{ configMaps, secrets, claims map[string]bool }

func (r references) container(c *corev1.Container) {
	for _, from := range c.EnvFrom {
		if ref := from.ConfigMapRef; ref != nil {
			r.configMaps[ref.Name] = true
		}
		if ref := from.SecretRef; ref != nil {
			r.secrets[ref.Name] = true
		}
	}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			continue
		}
		if ref := v.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.configMaps[ref.Name] = true
		}
		if ref := v.ValueFrom.SecretKeyRef; ref != nil {
			r.secrets[ref.Name] = true
		}
	}
}

func (r references) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		r.configMaps[v.ConfigMap.Name] = true
	case v.Secret != nil:
		r.secrets[v.Secret.SecretName] = true
	case v.PersistentVolumeClaim != nil:
		r.claims[v.PersistentVolumeClaim.ClaimName] = true
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				r.configMaps[s.ConfigMap.Name] = true
			}
			if s.Secret != nil {
				r.secrets[s.Secret.Name] = true
			}
		}
	}
}

// Diff compares the objects in two checkpoints of the same pod. live lists the changed objects
// whose content a running pod receives (such as ConfigMap shop/web). It includes objects that
// were added or removed. bound lists the changed claims and volumes. The pod was created with
// the previous ones. frozen lists the objects in live that were immutable: an API server would
// not allow a change of their data.
func (c Checkpoint) Diff(after Checkpoint) (live, bound, frozen []string) {
	for name, pair := range pairs(c.ConfigMaps, after.ConfigMaps) {
		was, is := pair[0], pair[1]
		if was != nil && is != nil && reflect.DeepEqual(full(was.Data), full(is.Data)) && reflect.DeepEqual(full(was.BinaryData), full(is.BinaryData)) {
			continue
		}
		live = append(live, "ConfigMap "+name)
		if was != nil && is != nil && was.Immutable != nil && *was.Immutable {
			frozen = append(frozen, "ConfigMap "+name)
		}
	}
	for name, pair := range pairs(c.Secrets, after.Secrets) {
		was, is := pair[0], pair[1]
		if was != nil && is != nil && reflect.DeepEqual(full(was.Data), full(is.Data)) && maps.Equal(credential.Of(was), credential.Of(is)) {
			continue
		}
		live = append(live, "Secret "+name)
		if was != nil && is != nil && was.Immutable != nil && *was.Immutable {
			frozen = append(frozen, "Secret "+name)
		}
	}
	for name, pair := range pairs(c.Claims, after.Claims) {
		if pair[0] == nil || pair[1] == nil || pair[0].Spec.VolumeName != pair[1].Spec.VolumeName {
			bound = append(bound, "PersistentVolumeClaim "+name)
		}
	}
	for name, pair := range pairs(c.Volumes, after.Volumes) {
		if pair[0] == nil || pair[1] == nil || !sameVolume(pair[0], pair[1]) {
			bound = append(bound, "PersistentVolume "+name)
		}
	}
	slices.Sort(live)
	slices.Sort(bound)
	slices.Sort(frozen)
	return live, bound, frozen
}

// full returns an empty map for nil, because a file can contain either.
func full[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// pairs matches the objects of two lists by namespace/name. If an object is in only one list, the
// other half of its pair is the zero value.
func pairs[T interface {
	comparable
	metav1.Object
}](before, after []T) map[string][2]T {
	out := map[string][2]T{}
	for i, list := range [][]T{before, after} {
		for _, o := range list {
			name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
			pair := out[name]
			pair[i] = o
			out[name] = pair
		}
	}
	return out
}

// sameVolume compares two PersistentVolumes after defaulting.
func sameVolume(a, b *corev1.PersistentVolume) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	coredefaults.SetObjectDefaults_PersistentVolume(a)
	coredefaults.SetObjectDefaults_PersistentVolume(b)
	return sameJSON(a.Spec, b.Spec)
}

// sameJSON compares values as JSON, so that two quantities of 1Gi are equal however they were
// parsed.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

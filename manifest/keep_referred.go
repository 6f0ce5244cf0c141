package manifest

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// KeepReferred returns o with additional objects from c, which is the checkpoint of the existing pod.
// These are the objects to which pod refers and that o lacks. It adds a claim together with its volume.
// It also returns the names of the added objects (ConfigMap shop/web). With kubectl, these objects
// would still be in the API server. podrun has no API server, so only the checkpoint has a copy. If the
// values of Secrets are lost, KeepReferred does not add the Secrets. KeepReferred does not change o.
func (c Checkpoint) KeepReferred(pod *corev1.Pod, o *Objects) (*Objects, []string) {
	was := Referred(pod, c.Objects())
	out := *o
	var kept []string
	for _, m := range was.ConfigMaps {
		if key := m.Namespace + "/" + m.Name; o.ConfigMaps[key] == nil {
			out.ConfigMaps = with(out.ConfigMaps, key, m)
			kept = append(kept, "ConfigMap "+key)
		}
	}
	for _, s := range was.Secrets {
		if key := s.Namespace + "/" + s.Name; o.Secrets[key] == nil && !c.SecretsLost {
			out.Secrets = with(out.Secrets, key, s)
			kept = append(kept, "Secret "+key)
		}
	}
	for _, claim := range was.Claims {
		kept = append(kept, was.keepClaim(claim, &out)...)
	}
	if r := was.RuntimeClass; r != nil && o.RuntimeClasses[r.Name] == nil {
		out.RuntimeClasses = with(out.RuntimeClasses, r.Name, r)
		kept = append(kept, "RuntimeClass "+r.Name)
	}
	return &out, kept
}

// keepClaim adds a claim of the existing pod, bound to its volume, to o, unless the input has a bound
// claim of this name. An API server does so, too: if the manifest of a claim names no volume, the claim
// keeps its binding.
func (c Checkpoint) keepClaim(claim *corev1.PersistentVolumeClaim, o *Objects) (kept []string) {
	key := claim.Namespace + "/" + claim.Name
	given := o.Claims[key]
	at := slices.IndexFunc(c.Volumes, func(v *corev1.PersistentVolume) bool { return v.Name == claim.Spec.VolumeName })
	if at < 0 || given != nil && o.Volumes[given.Spec.VolumeName] != nil {
		return nil
	}
	if given != nil {
		claim = given.DeepCopy()
		claim.Spec.VolumeName = c.Volumes[at].Name
	} else {
		kept = append(kept, "PersistentVolumeClaim "+key)
	}
	o.Claims = with(o.Claims, key, claim)
	if name := c.Volumes[at].Name; o.Volumes[name] == nil {
		o.Volumes = with(o.Volumes, name, c.Volumes[at])
	}
	return kept
}

// with returns a copy of a map with one more entry.
func with[V any](m map[string]V, key string, value V) map[string]V {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// Resources returns all objects, each with its kind. First come the objects to which pods may
// refer, by kind and name, and then the pods in the order of the input.
func (o *Objects) Resources() []any {
	var out []any
	for _, key := range slices.Sorted(maps.Keys(o.RuntimeClasses)) {
		r := *o.RuntimeClasses[key]
		r.TypeMeta = typeMeta("node.k8s.io/v1", "RuntimeClass")
		out = append(out, r)
	}
	for _, key := range slices.Sorted(maps.Keys(o.PriorityClasses)) {
		r := *o.PriorityClasses[key]
		r.TypeMeta = typeMeta("scheduling.k8s.io/v1", "PriorityClass")
		out = append(out, r)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Volumes)) {
		r := *o.Volumes[key]
		r.TypeMeta = typeMeta("v1", "PersistentVolume")
		out = append(out, r)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Claims)) {
		r := *o.Claims[key]
		r.TypeMeta = typeMeta("v1", "PersistentVolumeClaim")
		out = append(out, r)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Services)) {
		r := *o.Services[key]
		r.TypeMeta = typeMeta("v1", "Service")
		out = append(out, r)
	}
	for _, key := range slices.Sorted(maps.Keys(o.ConfigMaps)) {
		r := *o.ConfigMaps[key]
		r.TypeMeta = typeMeta("v1", "ConfigMap")
		out = append(out, r)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Secrets)) {
		r := *o.Secrets[key]
		r.TypeMeta = typeMeta("v1", "Secret")
		out = append(out, r)
	}
	for _, p := range o.Pods {
		r := *p.Object
		r.TypeMeta = typeMeta("v1", "Pod")
		out = append(out, r)
	}
	return out
}

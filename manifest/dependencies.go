package manifest

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// Dependencies are the objects to which a pod refers, without the pod. podrun stores them with a CronJob,
// whose pods start later.
type Dependencies struct {
	ConfigMaps      []*corev1.ConfigMap             `json:"configMaps,omitempty"`
	Secrets         []*corev1.Secret                `json:"secrets,omitempty"`
	Claims          []*corev1.PersistentVolumeClaim `json:"claims,omitempty"`
	Volumes         []*corev1.PersistentVolume      `json:"volumes,omitempty"`
	RuntimeClass    *nodev1.RuntimeClass            `json:"runtimeClass,omitempty"`
	PriorityClasses []*schedulingv1.PriorityClass   `json:"priorityClasses,omitempty"`
}

// DependenciesOf returns the objects of an input to which a pod refers; nil if there are none.
func DependenciesOf(pod *corev1.Pod, o *Objects) *Dependencies {
	c := Referred(pod, o)
	d := &Dependencies{ConfigMaps: c.ConfigMaps, Secrets: c.Secrets, Claims: c.Claims, Volumes: c.Volumes, RuntimeClass: c.RuntimeClass}
	for _, name := range slices.Sorted(maps.Keys(o.PriorityClasses)) {
		if p := o.PriorityClasses[name]; p.GlobalDefault || p.Name == pod.Spec.PriorityClassName {
			d.PriorityClasses = append(d.PriorityClasses, p)
		}
	}
	if len(d.ConfigMaps)+len(d.Secrets)+len(d.Claims)+len(d.Volumes)+len(d.PriorityClasses) == 0 && d.RuntimeClass == nil {
		return nil
	}
	return d
}

// Over returns a copy of o with these objects, which replace objects of the same names. d may be nil.
func (d *Dependencies) Over(o *Objects) *Objects {
	out := *o
	if d == nil {
		return &out
	}
	for _, m := range d.ConfigMaps {
		out.ConfigMaps = with(out.ConfigMaps, m.Namespace+"/"+m.Name, m)
	}
	for _, s := range d.Secrets {
		out.Secrets = with(out.Secrets, s.Namespace+"/"+s.Name, s)
	}
	for _, c := range d.Claims {
		out.Claims = with(out.Claims, c.Namespace+"/"+c.Name, c)
	}
	for _, v := range d.Volumes {
		out.Volumes = with(out.Volumes, v.Name, v)
	}
	if r := d.RuntimeClass; r != nil {
		out.RuntimeClasses = with(out.RuntimeClasses, r.Name, r)
	}
	for _, p := range d.PriorityClasses {
		out.PriorityClasses = with(out.PriorityClasses, p.Name, p)
	}
	return &out
}

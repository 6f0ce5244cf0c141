package run

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/nodeconfig"
	"github.com/podrun/podrun/problem"
)

// Change says how a pod of a manifest relates to what is here.
type Change string

// The changes.
const (
	ChangeNew       Change = "new"       // no pod of that name is here
	ChangeUnchanged Change = "unchanged" // the same pod is here
	ChangeReplace   Change = "replace"   // another pod of that name is here, and goes first
)

// Here is a pod of podrun's that is on this host already, by its checkpoint.
type Here struct {
	ID  identity.Pod
	Pod *corev1.Pod // as it was planned
}

// Target is one pod of a command: its plan, and what it takes the place of.
type Target struct {
	Plan   *Plan
	Change Change
	Old    []Here // the pods that it replaces
}

// PrepareInput is what Prepare decides by.
type PrepareInput struct {
	Objects      *manifest.Objects
	Facts        host.Facts
	Settings     nodeconfig.Settings
	Here         []Here
	Invocation   string
	AllowKubelet bool
}

// Prepare plans and admits all pods of a command, before the first side effect:
// each as if those that it replaces were gone, and all of them together. It is
// pure. Any problem that refuses one of them refuses all.
func Prepare(in PrepareInput) ([]Target, problem.List) {
	var targets []Target
	var arriving []admission.Pod
	allocatable, problems := admission.Allocatable(in.Facts, in.Settings)
	for _, mp := range in.Objects.Pods {
		handler, found := runtimeHandler(mp.Object, in.Objects)
		plan, more := NewPlan(Input{
			Pod: mp.Object, Objects: in.Objects, Facts: in.Facts, Settings: in.Settings,
			Handler: handler, Invocation: in.Invocation, Allocatable: allocatable,
		})
		for _, p := range append(found, more...) {
			problems = append(problems, mp.Locate(p))
		}
		t := Target{Plan: plan}
		t.Change, t.Old = change(plan, in.Here)
		targets = append(targets, t)
		arriving = append(arriving, admission.Pod{Pod: plan.Pod, Handler: handler})
	}
	verdict := admission.CheckAll(arriving, in.Facts, in.Settings, admission.Options{AllowKubelet: in.AllowKubelet})
	for i, mp := range in.Objects.Pods {
		for _, p := range verdict[i] {
			problems = append(problems, mp.Locate(p))
		}
	}
	return targets, problems
}

// change finds out how a pod relates to those of its name that are here.
func change(plan *Plan, here []Here) (Change, []Here) {
	var old []Here
	same := false
	for _, h := range here {
		if h.ID.Namespace != plan.ID.Namespace || h.ID.Name != plan.ID.Name {
			continue
		}
		if h.ID.UID == plan.ID.UID && samePod(h.Pod, plan.Pod) {
			same = true
			continue
		}
		old = append(old, h)
	}
	switch {
	case len(old) > 0:
		return ChangeReplace, old
	case same:
		return ChangeUnchanged, nil
	}
	return ChangeNew, nil
}

// samePod compares two pods as their authors wrote them.
func samePod(a, b *corev1.Pod) bool {
	return a != nil && equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}

// runtimeHandler finds the handler of the pod's RuntimeClass.
func runtimeHandler(pod *corev1.Pod, objects *manifest.Objects) (string, problem.List) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	if class := objects.RuntimeClasses[*name]; class != nil {
		return class.Handler, nil
	}
	return "", problem.List{{
		Field: "spec.runtimeClassName", Reason: "NotFound",
		Message: fmt.Sprintf("RuntimeClass %q is not in the input", *name),
		Hint:    "add the RuntimeClass to the manifest",
	}}
}

// hostPorts lists the ports of the host that the pods ask for, so that only
// their owners are looked up.
func hostPorts(objects *manifest.Objects) []host.HostPort {
	var ports []host.HostPort
	for _, p := range objects.Pods {
		ports = append(ports, host.HostPorts(p.Object)...)
	}
	return ports
}

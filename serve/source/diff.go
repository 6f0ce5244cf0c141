package source

import (
	"reflect"

	"github.com/podrun/podrun/manifest"

	corev1 "k8s.io/api/core/v1"
)

// ChangeKind is the kind of a pod's change.
type ChangeKind string

// The kinds of changes, with the kubelet's names (PodOperation in pkg/kubelet/types). Reconcile
// means that the pod itself is unchanged, but that the name of its file, or an object to which it
// refers, has changed.
const (
	Add       ChangeKind = "Add"
	Update    ChangeKind = "Update"
	Remove    ChangeKind = "Remove"
	Reconcile ChangeKind = "Reconcile"
)

// Change is one changed pod.
type Change struct {
	Kind ChangeKind
	Pod  Pod // the current pod; for Remove, the previous one
	// Objects has only this pod and the objects to which it can refer, as the input of
	// run.Apply. It is nil for Remove.
	Objects *manifest.Objects
	// What lists what an Update or Reconcile changes: paths of fields (spec.containers[0].image),
	// objects (ConfigMap shop/web), or "source file".
	What []string
}

// Diff returns the changes between two merges. The removed pods come first, in their previous
// order. The others follow, in their current order. For the first merge, before is nil: all
// pods are added.
func Diff(before, after *Desired) []Change {
	if before == nil {
		before = &Desired{Shared: &manifest.Objects{}}
	}
	is := make(map[string]bool, len(after.Pods))
	for i := range after.Pods {
		is[after.Pods[i].Key()] = true
	}
	var out []Change
	was := make(map[string]*Pod, len(before.Pods))
	for i := range before.Pods {
		p := &before.Pods[i]
		was[p.Key()] = p
		if !is[p.Key()] {
			out = append(out, Change{Kind: Remove, Pod: *p})
		}
	}
	classes := !reflect.DeepEqual(before.Shared.PriorityClasses, after.Shared.PriorityClasses) ||
		!reflect.DeepEqual(before.Shared.RuntimeClasses, after.Shared.RuntimeClasses)
	for i := range after.Pods {
		p := &after.Pods[i]
		c := Change{Kind: Add, Pod: *p}
		if old := was[p.Key()]; old != nil {
			c.Kind, c.What = compare(old, p, before.Shared, after.Shared, classes)
			if len(c.What) == 0 {
				continue
			}
		}
		c.Objects = after.Objects(i)
		out = append(out, c)
	}
	return out
}

// compare returns the kind of a pod's change, and the differences. If the pod is unchanged, it
// returns neither.
func compare(old, p *Pod, before, after *manifest.Objects, classes bool) (ChangeKind, []string) {
	if old.Object != p.Object {
		what := manifest.Changes(old.Object, p.Object)
		if old.Object.UID != p.Object.UID {
			what = append(what, "metadata.uid")
		}
		if len(what) > 0 {
			return Update, what
		}
	}
	var what []string
	if classes {
		what = manifest.Changes(withClasses(old.Object, before), withClasses(p.Object, after))
		if name := p.Object.Spec.RuntimeClassName; name != nil && !reflect.DeepEqual(handler(*name, before), handler(*name, after)) {
			what = append(what, "RuntimeClass "+*name)
		}
	}
	live, bound, _ := manifest.Referred(old.Object, before).Diff(manifest.Referred(p.Object, after))
	what = append(append(what, live...), bound...)
	if old.Path != p.Path {
		what = append(what, "source file")
	}
	return Reconcile, what
}

// withClasses returns a pod with the fields that its RuntimeClass and PriorityClass add.
func withClasses(pod *corev1.Pod, o *manifest.Objects) *corev1.Pod {
	// podrun reports these problems when it applies the pod.
	out, _ := manifest.WithClasses(pod, o)
	return out
}

// handler returns the runtime handler of a RuntimeClass; nil if there is no such class.
func handler(name string, o *manifest.Objects) *string {
	if class := o.RuntimeClasses[name]; class != nil {
		return &class.Handler
	}
	return nil
}

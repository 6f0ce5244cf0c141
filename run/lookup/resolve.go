package lookup

import (
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// Ref refers to a pod, either by the pod's name or by the object in a manifest that defines the
// pod.
type Ref struct {
	Kind string // the kind of a workload, such as Deployment; "" or Pod for the name of a pod
	Name string
}

// String returns the reference as kubectl prints it: deployment/web.
func (r Ref) String() string {
	if r.Kind == "" {
		return "pod/" + r.Name
	}
	return strings.ToLower(r.Kind) + "/" + r.Name
}

// OtherDefinition is the error for a workload that does not exist, if an object of another kind defines the
// pod of that name.
type OtherDefinition struct {
	Named   Ref // the requested reference
	Defined Ref // the reference to the object that defines the pod
}

func (e *OtherDefinition) Error() string { return "not found" }

// Resolve returns the name of the pod to which the reference refers. It reads the pod's checkpoint, but
// does not call the runtime. It returns an error, of kind Failed, if the pod exists but an object of
// another kind defines it. If the pod has no readable checkpoint, or if an older release created it,
// the kind of its definition is unknown, and Resolve returns the name without an error. Namespace ""
// means all namespaces.
func (r Ref) Resolve(layout identity.Layout, namespace string) (name string, err error) {
	if r.Kind == "" || r.Kind == "Pod" {
		return r.Name, nil
	}
	if name, err := podOfJob(layout, namespace, r); name != "" || err != nil {
		return name, err
	}
	if all, err := r.Replicas(layout, namespace); err != nil {
		return "", err
	} else if len(all) > 0 {
		return all[0], nil
	}
	stored, err := store.StoredNamed(layout, identity.Pod{Namespace: namespace, Name: r.Name})
	if err != nil {
		return "", err
	}
	sel := Selector{Namespace: namespace, Names: []string{r.Name}}
	for _, id := range stored {
		if !sel.Matches(id) {
			continue
		}
		k := observe.ReadKnown(layout, id)
		defined := Ref{Kind: r.Kind, Name: k.Definition.WorkloadName(r.Name)}
		if k.Definition.DefinedBy(r.Kind) && defined == r {
			return r.Name, nil
		}
		defined.Kind = k.Definition.Kind
		other := &OtherDefinition{Named: r, Defined: defined}
		err = &problem.Error{Kind: problem.Failed, Object: strings.ToLower(r.Kind) + " " + r.Name, Err: other,
			Hint: fmt.Sprintf("a %s defines the pod %s: use %s", k.Definition.Kind, r.Name, other.Defined)}
	}
	if name := manifest.JobPodName(r.Kind, r.Name); err != nil && name != r.Name {
		// Another object in the same file defines a pod with the Job's name.
		if _, other := (Ref{Kind: r.Kind, Name: name}).DefinedIn(layout, namespace); other {
			return name, nil
		}
	}
	if err != nil {
		return "", err
	}
	return r.Name, nil
}

// Replicas returns the names of the pods of a workload whose replicas podrun honours. Namespace "" means all
// namespaces; Replicas then returns none. The names are in the order of the replicas.
func (r Ref) Replicas(layout identity.Layout, namespace string) (names []string, err error) {
	if !manifest.IsReplicated(r.Kind) || namespace == "" {
		return nil, nil
	}
	stored, err := store.StoredReplicas(layout, r.Kind, identity.Pod{Namespace: namespace, Name: r.Name})
	for _, one := range stored {
		names = append(names, one.ID.Name)
	}
	return names, err
}

// NoReplicas is the error for a workload that has been scaled to 0.
type NoReplicas struct{}

func (*NoReplicas) Error() string { return "has no pods: it is scaled to 0" }

// ResolveAll is like Resolve, but returns the names of all pods that a workload defines. The error
// of a workload that has been scaled to 0 is a *NoReplicas.
func (r Ref) ResolveAll(layout identity.Layout, namespace string) ([]string, error) {
	names, err := r.Replicas(layout, namespace)
	if len(names) > 0 || err != nil {
		return names, err
	}
	if manifest.IsReplicated(r.Kind) && namespace != "" {
		record, err := store.ReadWorkload(layout, identity.Pod{Namespace: namespace, Name: r.Name})
		if err == nil && record != nil && record.Kind == r.Kind && !record.Deleted && record.Replicas == 0 {
			return nil, &problem.Error{Kind: problem.Failed, Object: r.String(), Err: &NoReplicas{},
				Hint: fmt.Sprintf("run 'podrun scale %s --replicas=1' to start a pod", r)}
		}
	}
	name, err := r.Resolve(layout, namespace)
	if err != nil {
		return nil, err
	}
	return []string{name}, nil
}

// DefinedIn reports whether a pod with the reference's name exists and is defined by an object of
// the reference's kind.
func (r Ref) DefinedIn(layout identity.Layout, namespace string) (identity.Pod, bool) {
	stored, err := store.StoredNamed(layout, identity.Pod{Namespace: namespace, Name: r.Name})
	if err != nil {
		return identity.Pod{}, false
	}
	for _, id := range stored {
		if k := observe.ReadKnown(layout, id); (Selector{
			Namespace: namespace,
			Names:     []string{r.Name},
		}).Matches(id) && k.Definition != nil && k.Definition.Kind == r.Kind {
			return id, true
		}
	}
	return identity.Pod{}, false
}

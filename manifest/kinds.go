package manifest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// kind is one kind of object that podrun reads.
type kind struct {
	apiVersion string
	take       func(l *loader, it item, h header)
}

// kindNamed returns a kind that podrun reads.
func kindNamed(name string) (kind, bool) {
	switch name {
	case "Pod":
		return kind{"v1", (*loader).pod}, true
	case "ConfigMap":
		return kind{"v1", (*loader).configMap}, true
	case "Secret":
		return kind{"v1", (*loader).secret}, true
	case "PersistentVolumeClaim":
		return kind{"v1", (*loader).volumeClaim}, true
	case "PersistentVolume":
		return kind{"v1", (*loader).volume}, true
	case "Service":
		return kind{"v1", (*loader).service}, true
	case "RuntimeClass":
		return kind{"node.k8s.io/v1", (*loader).runtimeClass}, true
	case "PriorityClass":
		return kind{"scheduling.k8s.io/v1", (*loader).priorityClass}, true
	}
	if w, ok := workloads[name]; ok {
		return kind{w.apiVersion, (*loader).workload}, true
	}
	return kind{}, false
}

// kindNames are the names that kindNamed accepts, for messages.
var kindNames = []string{"Pod", "ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "Service", "RuntimeClass", "PriorityClass",
	"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job", "CronJob", "ReplicationController", "PodTemplate"}

// isList reports whether a kind is "List", or a list of a kind that podrun reads.
func isList(name string) bool {
	of, ok := strings.CutSuffix(name, "List")
	if !ok {
		return false
	}
	_, known := kindNamed(of)
	return of == "" || known || unused[of] != nil || slices.Contains(controls, of)
}

// kind returns the kind of an object. If the kind is unknown, or the apiVersion wrong, it
// reports that.
func (l *loader) kind(it item, h header) (kind, bool) {
	if l.skips(h) {
		l.skip(h)
		return kind{}, false
	}
	k, ok := kindNamed(h.Kind)
	if !ok || isCustom(h) {
		l.unknownKind(it, h)
		return kind{}, false
	}
	if h.APIVersion != k.apiVersion {
		object := h.object()
		p := it.problem(object, "apiVersion", "FieldValueInvalid", fmt.Sprintf("apiVersion %q does not serve kind %s", h.APIVersion, h.Kind))
		if h.APIVersion == "" {
			p.Reason = "FieldValueRequired"
			p.Message = "apiVersion is missing"
		}
		p.Hint = "write apiVersion: " + k.apiVersion
		l.add(p)
		return kind{}, false
	}
	return k, true
}

func (l *loader) unknownKind(it item, h header) {
	name := h.Kind
	if h.APIVersion != "" {
		name += " of " + h.APIVersion
	}
	p := it.problem(h.object(), "kind", "UnknownKind", fmt.Sprintf("podrun does not read kind %s", name))
	p.Hint = "remove it, or skip it with --skip-kinds=" + h.Kind
	similar := misspelled(h)
	switch {
	case similar != "":
		p.Hint = "did you mean " + similar + "?"
	case h.Kind == "Kustomization":
		p.Message = "this is a kustomization, not a Kubernetes object"
		p.Hint = "run 'podrun apply -k " + filepath.Dir(it.doc.file) + "'"
	case restricts(h.Kind):
		p.Message = "podrun does not enforce a " + h.Kind
	case isCustom(h):
		p.Hint += ", or every custom resource with --skip-kinds=" + CustomKinds
	}
	l.add(p)
}

// object returns the object's name in problems, such as "Pod default/web" or "Pod web".
func (h header) object() string {
	name := h.Metadata.Name
	if name == "" {
		return h.Kind
	}
	if h.Metadata.Namespace != "" {
		name = h.Metadata.Namespace + "/" + name
	}
	return h.Kind + " " + name
}

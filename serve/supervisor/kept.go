package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// podDocument is the key of the pod in the hashes of a source's documents. Other keys are a kind and a
// name, such as "ConfigMap shop/web".
const podDocument = "Pod"

// keepsDefinition reports whether a pod that a source defines keeps the definition on disk. It does if a
// command has defined the pod, and the source's definition of the pod itself has not changed since it was
// applied. Objects to which the pod refers may have changed in the source. The argument applied contains
// the hashes of the source's documents when they were applied.
func keepsDefinition(origin *store.Origin, applied map[string]string, source *manifest.Objects) bool {
	return origin.Command == store.OriginApply && applied[podDocument] != "" && applied[podDocument] == hashOfObject(source.Pods[0].Object)
}

// withChanged returns the content of a checkpoint, updated with the changes in the source since it
// was applied. An object that has not changed in the source keeps its content in the checkpoint,
// which may come from a command.
func withChanged(c manifest.Checkpoint, source *manifest.Objects, applied map[string]string) *manifest.Objects {
	out := c.Objects()
	referred := manifest.Referred(source.Pods[0].Object, source)
	now := documents(source)
	take(out.ConfigMaps, "ConfigMap", referred.ConfigMaps, applied, now)
	take(out.Secrets, "Secret", referred.Secrets, applied, now)
	take(out.Claims, "PersistentVolumeClaim", referred.Claims, applied, now)
	take(out.Volumes, "PersistentVolume", referred.Volumes, applied, now)
	if class := referred.RuntimeClass; class != nil && applied[document("RuntimeClass", class)] != now[document("RuntimeClass", class)] {
		out.RuntimeClasses[class.Name] = class
	}
	return out
}

// take updates the objects of one kind. It adds those that have changed in the source, and removes those
// that are no longer in the source.
func take[T metav1.Object](out map[string]T, kind string, source []T, applied, now map[string]string) {
	for _, o := range source {
		if key := document(kind, o); applied[key] != now[key] {
			out[objectName(o)] = o
		}
	}
	for name, o := range out {
		if key := document(kind, o); applied[key] != "" && now[key] == "" {
			delete(out, name)
		}
	}
}

// documents returns a hash of a source's definition of a pod, and of each object to which the pod
// refers.
func documents(source *manifest.Objects) map[string]string {
	c := manifest.Referred(source.Pods[0].Object, source)
	out := map[string]string{podDocument: hashOfObject(c.Pod)}
	add(out, "ConfigMap", c.ConfigMaps)
	add(out, "Secret", c.Secrets)
	add(out, "PersistentVolumeClaim", c.Claims)
	add(out, "PersistentVolume", c.Volumes)
	if c.RuntimeClass != nil {
		out[document("RuntimeClass", c.RuntimeClass)] = hashOfObject(c.RuntimeClass)
	}
	return out
}

func add[T metav1.Object](to map[string]string, kind string, objects []T) {
	for _, o := range objects {
		to[document(kind, o)] = hashOfObject(o)
	}
}

// document returns the key of an object in the hashes of a source's documents.
func document(kind string, o metav1.Object) string { return kind + " " + objectName(o) }

// objectName returns the key of an object in manifest.Objects.
func objectName(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

func hashOfObject(o any) string {
	data, err := json.Marshal(o)
	if err != nil {
		// the encoding of an API object never fails
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

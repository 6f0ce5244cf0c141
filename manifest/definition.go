package manifest

import (
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// Definition is the object of the input that defines a pod: either a Pod, or a workload from
// whose pod template podrun created the pod. A checkpoint has it in a field of the pod's
// document. Older releases ignore an unknown field, but refuse a document of another kind.
type Definition struct {
	Kind string // Pod, or the kind of a workload
	// Workload is the workload as JSON, without its pod template and its status; nil for a Pod. It
	// omits the template, because any change to the template also changes the pod.
	Workload json.RawMessage
}

// definedByPod is the definition of a pod that the input itself contains as a Pod.
func definedByPod() *Definition { return &Definition{Kind: "Pod"} }

// newDefinition returns the definition of a pod that a workload defines.
func newDefinition(kind string, w workload, obj any) (*Definition, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	obj = w.make()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return nil, err
	}
	meta, template := w.get(obj)
	*meta = metav1.ObjectMeta{Labels: meta.Labels, Annotations: meta.Annotations}
	*template = corev1.PodTemplateSpec{}
	if raw, err = json.Marshal(obj); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	for name, value := range map[string]string{"apiVersion": w.apiVersion, "kind": kind} {
		// Marshaling a string cannot fail.
		fields[name], _ = json.Marshal(value)
	}
	raw, err = json.Marshal(fields)
	return &Definition{Kind: kind, Workload: raw}, err
}

// Equal reports whether two definitions are the same, apart from the pod. Both may be nil.
func (d *Definition) Equal(other *Definition) bool { return reflect.DeepEqual(d, other) }

// DefinedBy reports whether an object of this kind defines the pod. If a pod has no definition, an
// older release created it, possibly from a workload of any kind.
func (d *Definition) DefinedBy(kind string) bool { return d == nil || d.Kind == kind }

// Labels returns the labels of the workload; nil for a Pod.
func (d *Definition) Labels() map[string]string {
	var o metav1.PartialObjectMetadata
	if d == nil || d.Workload == nil || json.Unmarshal(d.Workload, &o) != nil {
		return nil
	}
	return o.Labels
}

// MarshalJSON returns the workload, or the kind of a Pod.
func (d Definition) MarshalJSON() ([]byte, error) {
	if d.Workload != nil {
		return d.Workload, nil
	}
	return json.Marshal(metav1.TypeMeta{APIVersion: "v1", Kind: d.Kind})
}

// UnmarshalJSON reads the output of MarshalJSON. A later release may have written a kind that this
// release does not support.
func (d *Definition) UnmarshalJSON(raw []byte) error {
	h, _ := readHeader(raw)
	d.Kind = h.Kind
	d.Workload = nil
	if workloads[h.Kind].make != nil {
		d.Workload = append(json.RawMessage(nil), raw...)
	}
	return nil
}

// storedPod is a pod in a checkpoint.
type storedPod struct {
	corev1.Pod
	Definition *Definition       `json:"podrun.dev/definition,omitempty"`
	Images     map[string]string `json:"podrun.dev/images,omitempty"`
}

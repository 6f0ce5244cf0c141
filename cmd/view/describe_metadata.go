package view

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigMap writes a ConfigMap as 'kubectl describe configmap' (v1.36) does; keys are sorted.
func (d *Description) ConfigMap(m *corev1.ConfigMap, events bool) {
	d.metadata(&m.ObjectMeta)
	d.row(0, "\nData\n====")
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		d.row(0, key+":\n----\n"+m.Data[key]+"\n")
	}
	d.row(0, "\nBinaryData\n====")
	for _, key := range slices.Sorted(maps.Keys(m.BinaryData)) {
		d.row(0, key+": "+strconv.Itoa(len(m.BinaryData[key]))+" bytes")
	}
	d.row(0)
	if events { // podrun has no events of ConfigMaps
		d.row(0, "Events:", "<none>")
	}
}

// Secret writes a Secret as 'kubectl describe secret' (v1.36) does: the sizes of the values, but not the values.
func (d *Description) Secret(s *corev1.Secret, lost error) {
	d.metadata(&s.ObjectMeta)
	d.row(0, "\nType:", string(s.Type))
	d.row(0, "\nData\n====")
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		d.row(0, key+":", strconv.Itoa(len(s.Data[key]))+" bytes")
	}
	if lost != nil {
		d.row(0, lost.Error())
	}
}

// metadata writes the first rows of an object other than a pod.
func (d *Description) metadata(meta *metav1.ObjectMeta) {
	d.row(0, "Name:", meta.Name)
	d.row(0, "Namespace:", meta.Namespace)
	d.labelsAndAnnotations(meta)
}

func (d *Description) labelsAndAnnotations(meta *metav1.ObjectMeta) {
	d.List("Labels", Pairs(meta.Labels))
	d.List("Annotations", AnnotationLines(meta.Annotations))
}

package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// specContainer is a container of a pod's spec and its position in the spec.
type specContainer struct {
	Container *corev1.Container
	Field     string // spec.initContainers[0]
	EventPath string // spec.initContainers{setup}
	Init      bool
	// Ephemeral is true for an ephemeral container (KEP-277). Target is the container whose process
	// namespace it shares, or "" if it shares none.
	Ephemeral bool
	Target    string
}

// SpecContainers lists the pod's containers: init containers first, ephemeral ones
// last.
func SpecContainers(pod *corev1.Pod) []specContainer {
	var out []specContainer
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out = append(out, specContainer{
			Container: c,
			Field:     fieldIndex("initContainers", i),
			EventPath: "spec.initContainers{" + c.Name + "}",
			Init:      true,
		})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		out = append(out, specContainer{Container: c, Field: fieldIndex("containers", i), EventPath: "spec.containers{" + c.Name + "}"})
	}
	for i := range pod.Spec.EphemeralContainers {
		e := &pod.Spec.EphemeralContainers[i]
		c := (*corev1.Container)(&e.EphemeralContainerCommon)
		out = append(out, specContainer{
			Container: c,
			Field:     fieldIndex("ephemeralContainers", i),
			EventPath: "spec.ephemeralContainers{" + c.Name + "}",
			Ephemeral: true,
			Target:    e.TargetContainerName,
		})
	}
	return out
}

// FindContainer returns the container with the given name, or the zero value if the pod has no such
// container.
func FindContainer(pod *corev1.Pod, name string) specContainer {
	for _, c := range SpecContainers(pod) {
		if c.Container.Name == name {
			return c
		}
	}
	return specContainer{}
}

func fieldIndex(list string, i int) string { return fmt.Sprintf("spec.%s[%d]", list, i) }

package container

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
)

// labels returns the labels that identify a container. The labels of the pod itself are only on
// the sandbox.
func labels(id identity.Pod, name string) map[string]string {
	out := id.Labels()
	out[identity.LabelContainerName] = name
	return out
}

// annotations returns data about a container that a later process may need, because the pod's
// definition may no longer be available then. Config adds the restart count.
func annotations(pod *corev1.Pod, c *corev1.Container) map[string]string {
	out := map[string]string{
		identity.AnnotationHash:                     Hash(c),
		identity.AnnotationTerminationMessagePath:   c.TerminationMessagePath,
		identity.AnnotationTerminationMessagePolicy: string(c.TerminationMessagePolicy),
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		out[identity.AnnotationPodDeletionGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[identity.AnnotationPodTerminationGrace] = strconv.FormatInt(*s, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		out[identity.AnnotationPreStopHandler] = asJSON(c.Lifecycle.PreStop)
	}
	if len(c.Ports) > 0 {
		out[identity.AnnotationContainerPorts] = asJSON(c.Ports)
	}
	return out
}

package nodeapi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf returns the part of a pod that a monitoring agent requires. It copies only fields that
// are known to be harmless. Other fields may contain credentials: environment variables, commands,
// arguments, probes, hooks, annotations (which may contain the whole manifest) and messages of
// containers (which may contain log lines).
func statusOf(p *corev1.Pod) corev1.Pod {
	m, spec := &p.ObjectMeta, &p.Spec
	out := corev1.Pod{TypeMeta: p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:                       m.Name,
			Namespace:                  m.Namespace,
			UID:                        m.UID,
			Labels:                     m.Labels,
			Generation:                 m.Generation,
			CreationTimestamp:          m.CreationTimestamp,
			DeletionTimestamp:          m.DeletionTimestamp,
			DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		},
		Spec: corev1.PodSpec{NodeName: spec.NodeName, HostNetwork: spec.HostNetwork, RestartPolicy: spec.RestartPolicy, Overhead: spec.Overhead,
			Priority: spec.Priority, PriorityClassName: spec.PriorityClassName, RuntimeClassName: spec.RuntimeClassName, Resources: spec.Resources,
			TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds, ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds},
		Status: *p.Status.DeepCopy()}
	for _, c := range spec.InitContainers {
		out.Spec.InitContainers = append(out.Spec.InitContainers, containerOf(c.Name, c.Image, c.Ports, c.Resources, c.RestartPolicy))
	}
	for _, c := range spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, containerOf(c.Name, c.Image, c.Ports, c.Resources, c.RestartPolicy))
	}
	for _, c := range spec.EphemeralContainers {
		out.Spec.EphemeralContainers = append(out.Spec.EphemeralContainers, corev1.EphemeralContainer{TargetContainerName: c.TargetContainerName,
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(containerOf(c.Name, c.Image, nil, corev1.ResourceRequirements{}, nil))})
	}
	for _, list := range [][]corev1.ContainerStatus{out.Status.InitContainerStatuses, out.Status.ContainerStatuses, out.Status.EphemeralContainerStatuses} {
		for i := range list {
			withoutMessages(&list[i].State)
			withoutMessages(&list[i].LastTerminationState)
		}
	}
	return out
}

func containerOf(name, image string, ports []corev1.ContainerPort, resources corev1.ResourceRequirements, restart *corev1.ContainerRestartPolicy) corev1.Container {
	return corev1.Container{Name: name, Image: image, Ports: ports, Resources: resources, RestartPolicy: restart}
}

func withoutMessages(s *corev1.ContainerState) {
	if s.Waiting != nil {
		s.Waiting.Message = ""
	}
	if s.Terminated != nil {
		s.Terminated.Message = ""
	}
}

package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

// QOSClass returns the pod's QoS class. It considers pod-level resources.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass { return qos.ComputePodQOS(pod) }

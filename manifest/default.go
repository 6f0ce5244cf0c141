package manifest

import (
	corev1 "k8s.io/api/core/v1"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// defaultPod does what the API server and its service account admission do to a new pod.
// Without the latter's name, spec.serviceAccountName would be empty in the downward API.
func defaultPod(pod *corev1.Pod) {
	coredefaults.SetObjectDefaults_Pod(pod)
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = pod.Spec.DeprecatedServiceAccount
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	syncAppArmor(pod)
}

// Default adds the defaults that this binary knows to the objects of a checkpoint, which
// a podrun of another release may have written. An upgrade with a new default therefore
// changes no pod, and the code that runs pods can rely on defaulted fields. Existing
// values are kept. The objects are changed in place.
func (c Checkpoint) Default() {
	if c.Pod != nil {
		defaultPod(c.Pod)
	}
	for _, s := range c.Secrets {
		coredefaults.SetObjectDefaults_Secret(s)
	}
	for _, claim := range c.Claims {
		coredefaults.SetObjectDefaults_PersistentVolumeClaim(claim)
	}
	for _, v := range c.Volumes {
		coredefaults.SetObjectDefaults_PersistentVolume(v)
	}
}

// withoutDisabled is a pod without the fields whose feature gate is off in this
// binary, as the API server stores a new one; nil if it cannot be converted. A
// podrun of another release may have had the gate on.
func withoutDisabled(pod *corev1.Pod) *corev1.Pod {
	var internal core.Pod
	var out corev1.Pod
	// The conversions share memory with their input.
	if coredefaults.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &internal, nil) != nil {
		return nil
	}
	podapi.DropDisabledPodFields(&internal, nil)
	if coredefaults.Convert_core_Pod_To_v1_Pod(&internal, &out, nil) != nil {
		return nil
	}
	return &out
}

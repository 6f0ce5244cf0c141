package manifest

import (
	corev1 "k8s.io/api/core/v1"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// defaultPod applies the defaults that the API server and its service account admission apply
// to a new pod. The service account is one of them, because the downward API can refer to
// spec.serviceAccountName.
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

// Default applies the defaults of this binary to the objects of a checkpoint, because another
// release of podrun may have written the checkpoint. The code that runs pods can then rely on
// defaults, and an upgrade to a release with a new default changes no pod. Default keeps existing
// values. It changes the objects in place.
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

// withoutDisabled returns the pod without the fields whose feature gate is disabled in this
// binary. An API server does the same when it stores a new pod. It returns nil if the pod cannot
// be converted. The pod may come from another release of podrun, in which the gate was enabled.
func withoutDisabled(pod *corev1.Pod) *corev1.Pod {
	var internal core.Pod
	var out corev1.Pod
	// The results of the conversions share memory with their inputs.
	if coredefaults.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &internal, nil) != nil {
		return nil
	}
	podapi.DropDisabledPodFields(&internal, nil)
	if coredefaults.Convert_core_Pod_To_v1_Pod(&internal, &out, nil) != nil {
		return nil
	}
	return &out
}

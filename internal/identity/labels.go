package identity

// These are the labels and annotations of sandboxes and containers. The io.kubernetes names are the kubelet's
// (pkg/kubelet/kuberuntime/labels.go), so that crictl and log collectors also find the parts of podrun's pods.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationContainerPorts           = "io.kubernetes.container.ports"
	AnnotationPodDeletionGracePeriod   = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationPodTerminationGrace      = "io.kubernetes.pod.terminationGracePeriod"

	// AnnotationManagedBy marks a sandbox that podrun created. podrun never stops or removes a
	// sandbox without this annotation, and does not consider it its own.
	AnnotationManagedBy = "podrun.dev/managed-by"
	// AnnotationInvocation is the random ID of the podrun process that created the sandbox. It
	// ensures that an undo never affects the sandbox of an earlier attempt.
	AnnotationInvocation = "podrun.dev/invocation"
	// AnnotationGeneration is the owner generation of the pod at the time when podrun created the
	// sandbox or container. It is only for debugging: podrun does not use it.
	AnnotationGeneration = "podrun.dev/owner-generation"
	// AnnotationRootDir is the root directory of the podrun process that created the sandbox. A podrun process with
	// another root directory does not change the sandbox. Early versions of podrun did not set the annotation, so
	// every podrun process may change a sandbox without it.
	AnnotationRootDir = "podrun.dev/root-dir"
	// AnnotationBackOff is the delay before podrun restarts a container that has exited, in Go's
	// notation for durations. If the annotation is missing, the delay is zero.
	AnnotationBackOff = "podrun.dev/back-off"
	// AnnotationStartOrder is an annotation of a pod that takes precedence over --start-order.
	AnnotationStartOrder = "podrun.dev/start-order"
	// AnnotationIP is an annotation of a pod that requests addresses from the embedded runtime's
	// network: at most one from each pod subnet, separated by commas.
	AnnotationIP = "podrun.dev/ip"

	// AnnotationProgressDeadline is an annotation of a pod or a workload that takes precedence over the setting
	// progressDeadline.
	AnnotationProgressDeadline = "podrun.dev/progress-deadline"
	// AnnotationReplicas is an annotation of a workload that takes precedence over the setting
	// replicas.
	AnnotationReplicas = "podrun.dev/replicas"
	ReplicasHonour     = "honour"
	ReplicasIgnore     = "ignore"

	// AnnotationRestartedAt is the annotation that kubectl rollout restart sets.
	AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

	// AnnotationUserNamespace, with the value UserNamespacePreferred, marks a pod to which podrun
	// gave hostUsers: false because of the setting userNamespaces.
	AnnotationUserNamespace = "podrun.dev/user-namespace"
	UserNamespacePreferred  = "preferred"

	// AnnotationVolumeOrigin is an annotation that podrun sets for PersistentVolumes that no manifest defines.
	// podrun removes it from the PersistentVolumes of manifests.
	AnnotationVolumeOrigin = "podrun.dev/volume-origin"
	VolumeOfSettings       = "settings"
	VolumeOfAPIServer      = "api-server"

	// ManagedBy is the value of AnnotationManagedBy.
	ManagedBy = "podrun"

	// TokenSecretType is the type of the Secrets in which podrun-node keeps service account tokens. The
	// files of such a Secret get the owner and the mode of a token.
	TokenSecretType = "podrun.dev/service-account-token"
)

// Owner reports whether a sandbox with these annotations belongs to podrun with the given root
// directory. If it belongs to podrun with another root directory, Owner returns that directory.
func Owner(annotations map[string]string, rootDir string) (ours bool, other string) {
	if annotations[AnnotationManagedBy] != ManagedBy {
		return false, ""
	}
	if dir := annotations[AnnotationRootDir]; dir != "" && dir != rootDir {
		return false, dir
	}
	return true, ""
}

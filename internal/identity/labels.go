package identity

// Labels and annotations of sandboxes and containers. The io.kubernetes names are the
// kubelet's (pkg/kubelet/kuberuntime/labels.go), so that crictl and log collectors find the
// parts of podrun's pods too.
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

	// AnnotationManagedBy marks a sandbox as podrun's. podrun never stops or removes a
	// sandbox without it, and does not count it as its own.
	AnnotationManagedBy = "podrun.dev/managed-by"
	// AnnotationInvocation is the random ID of the podrun process that created the sandbox.
	// It ensures that an undo never affects an earlier attempt.
	AnnotationInvocation = "podrun.dev/invocation"
	// AnnotationGeneration is the owner generation under which a sandbox or container was
	// created. It is for debugging only: podrun makes no decision based on it.
	AnnotationGeneration = "podrun.dev/owner-generation"
	// AnnotationRootDir is the root directory of the podrun that created the sandbox. A
	// podrun with another root directory does not change the sandbox. Sandboxes of podrun
	// versions before this annotation lack it, and every podrun may change them.
	AnnotationRootDir = "podrun.dev/root-dir"
	// AnnotationBackOff is the delay before a container that exits is restarted, in Go's
	// notation for durations. Without it, there is no delay.
	AnnotationBackOff = "podrun.dev/back-off"
	// AnnotationStartOrder on a pod takes precedence over --start-order.
	AnnotationStartOrder = "podrun.dev/start-order"
	// AnnotationIP on a pod requests addresses from the embedded runtime's network, at most one
	// of each pod subnet, separated by commas.
	AnnotationIP = "podrun.dev/ip"

	// AnnotationUserNamespace, with the value UserNamespacePreferred, marks a pod that has
	// hostUsers: false because of the setting userNamespaces.
	AnnotationUserNamespace = "podrun.dev/user-namespace"
	UserNamespacePreferred  = "preferred"

	// ManagedBy is the value of AnnotationManagedBy.
	ManagedBy = "podrun"
)

// Owner reports, based on a sandbox's annotations, whether the sandbox belongs to a podrun
// with this root directory. If it belongs to a podrun with another root directory, Owner
// returns that directory.
func Owner(annotations map[string]string, rootDir string) (ours bool, other string) {
	if annotations[AnnotationManagedBy] != ManagedBy {
		return false, ""
	}
	if dir := annotations[AnnotationRootDir]; dir != "" && dir != rootDir {
		return false, dir
	}
	return true, ""
}

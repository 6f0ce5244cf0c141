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
	// AnnotationGeneration is the owner generation under which a sandbox or a
	// container was made. It is provenance for people: nothing is decided by it.
	AnnotationGeneration = "podrun.dev/owner-generation"
	// AnnotationRootDir is the root directory of the podrun that made the
	// sandbox. A podrun with another one does not change it. Sandboxes of
	// before it was written have none, and are anybody's.
	AnnotationRootDir = "podrun.dev/root-dir"
	// AnnotationBackOff is how long a container that ends waits to be started
	// again, as Go writes durations; none means not at all.
	AnnotationBackOff = "podrun.dev/back-off"
	// AnnotationStartOrder on a pod takes precedence over --start-order.
	AnnotationStartOrder = "podrun.dev/start-order"

	// AnnotationUserNamespace, with the value UserNamespacePreferred, marks a pod whose
	// hostUsers: false is the default of the setting userNamespaces.
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

package identity

// Labels and annotations of sandboxes and containers. The io.kubernetes names
// are the kubelet's (pkg/kubelet/kuberuntime/labels.go), so that crictl, log
// collectors and podrun find a pod's parts the same way.
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

	// AnnotationManagedBy marks a sandbox as podrun's. podrun never stops,
	// removes or counts as its own a sandbox without it.
	AnnotationManagedBy = "podrun.dev/managed-by"
	// AnnotationInvocation is the random id of the podrun process that made
	// the sandbox, so that an undo never hits an earlier attempt.
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
	// AnnotationStartOrder of a pod takes precedence over --start-order.
	AnnotationStartOrder = "podrun.dev/start-order"

	// AnnotationUserNamespace, with the value UserNamespacePreferred, marks a pod whose
	// hostUsers: false is the default of the setting userNamespaces.
	AnnotationUserNamespace = "podrun.dev/user-namespace"
	UserNamespacePreferred  = "preferred"

	// ManagedBy is the value of AnnotationManagedBy.
	ManagedBy = "podrun"
)

// Owner reports from a sandbox's annotations whether it belongs to a podrun with
// this root directory; if it belongs to another podrun, it returns that one's
// root directory.
func Owner(annotations map[string]string, rootDir string) (ours bool, other string) {
	if annotations[AnnotationManagedBy] != ManagedBy {
		return false, ""
	}
	if dir := annotations[AnnotationRootDir]; dir != "" && dir != rootDir {
		return false, dir
	}
	return true, ""
}

package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
)

// A policy is how an operation works on its pod until a goal holds. There is one for each
// kind of operation.
type policy struct {
	// adopt makes another command's new definition of the pod the operation's. Otherwise
	// the operation ends.
	adopt bool
	// follow makes the operation observe the pod while another command owns it. Otherwise
	// it ends with ErrOwned.
	follow bool
	// retry reports failed steps and retries them, without end. Otherwise they end the
	// operation.
	retry bool
	// resume starts a pod again that was stopped because the node shut down, if its restart
	// policy does: no supervisor works on it while the node shuts down.
	resume bool
	// ephemeral is the pod whose ephemeral containers the operation starts; nil for none. A
	// command starts only those that it was asked for, so that one which cannot be started
	// does not make it fail.
	ephemeral func() *corev1.Pod
}

// applyPolicy is the policy of `apply`, for the objects of the pod that it applies.
func applyPolicy(objects *manifest.Objects) policy {
	return policy{follow: true, resume: true, ephemeral: func() *corev1.Pod { return objects.Pods[0].Object }}
}

// runPolicy is the policy of `run`.
func runPolicy(objects *manifest.Objects) policy {
	p := applyPolicy(objects)
	p.adopt = true
	return p
}

// waitPolicy is the policy of `wait`.
func waitPolicy() policy { return policy{follow: true, adopt: true} }

// servePolicy is the policy of `serve`, for the pod as it is defined at the time.
func servePolicy(pod func() *corev1.Pod) policy {
	return policy{adopt: true, retry: true, resume: true, ephemeral: pod}
}

package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/manifest"
)

// A policy describes how an operation works on its pod until it has reached its goal. Each kind of
// operation has one.
type policy struct {
	// adopt is true if the operation continues when another command has applied a new definition of
	// the pod. Otherwise a new definition ends the operation.
	adopt bool
	// follow is true if the operation observes the pod while another command owns it. Otherwise it ends
	// with ErrOwned.
	follow bool
	// retry is true if the operation reports failed steps and retries them forever. Otherwise a failed
	// step ends the operation.
	retry bool
	// resume is true if the operation starts a pod again that podrun stopped because the node shut
	// down, if the pod's restart policy allows this. While the node shuts down, no supervisor works
	// on the pod.
	resume bool
	// ephemeral returns the pod whose ephemeral containers the operation starts. It returns nil if
	// the operation starts none. A command starts only the ephemeral containers in its input, so that
	// it does not fail because of others that cannot be started.
	ephemeral func() *corev1.Pod
	// exitFrom is true if the command has the flag --exit-code-from.
	exitFrom bool
}

// applyPolicy returns the policy of `apply`. The argument contains the objects of the applied pod.
func applyPolicy(objects *manifest.Objects) policy {
	return policy{follow: true, resume: true, ephemeral: func() *corev1.Pod { return objects.Pods[0].Object }}
}

// runPolicy returns the policy of `run`.
func runPolicy(objects *manifest.Objects) policy {
	p := applyPolicy(objects)
	p.adopt = true
	p.exitFrom = true
	return p
}

// waitPolicy returns the policy of `wait`.
func waitPolicy() policy { return policy{follow: true, adopt: true} }

// servePolicy returns the policy of `serve`. The function pod returns the current definition of the
// pod.
func servePolicy(pod func() *corev1.Pod) policy {
	return policy{adopt: true, retry: true, resume: true, ephemeral: pod}
}

package reconcile

import (
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/stop"
)

// starter makes a pod's sandbox and starts its containers.
type starter struct {
	pod    *pod.Pod
	lease  *lease.Lease
	stop   *stop.Stopper
	remove *stop.Remover
	images images
	// failures are the errors of single containers: the others are started.
	failures []error
	// endDecides is true if a failed hook is no failure of the operation: the container's
	// end decides.
	endDecides bool
	// volumesMade says that the volumes are there, as this process made them, or since
	// containers of the pod were started.
	volumesMade bool
	// onStart is called for each container that was started, with the path of its log.
	onStart func(c lifecycle.Container, log string)
}

// fail notes that one container cannot be started; the others are started.
func (w *starter) fail(err error) { w.failures = append(w.failures, pod.OfPod(w.pod.Plan.ID, err)) }

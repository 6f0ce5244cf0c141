package reconcile

import (
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/stop"
)

// applying is the state of one call of Worker.Apply.
type applying struct {
	pod     *pod.Pod
	lease   *lease.Lease
	remove  *stop.Remover
	loop    *loop
	objects *manifest.Objects
}

func (w *Worker) applying() *applying {
	return &applying{pod: w.pod, lease: w.lease, remove: w.remove, loop: w.loop, objects: w.objects}
}

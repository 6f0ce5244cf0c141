package start

import (
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/stop"
)

// Starter creates a pod's sandbox and starts its containers.
type Starter struct {
	pod    *pod.Pod
	lease  *lease.Lease
	stop   *stop.Stopper
	remove *stop.Remover
	Images Images
	// Failures are the errors of individual containers. They do not prevent the start of the other
	// containers.
	Failures []error
	Volumes  Volumes
	Hooks    Hooks
	Resizer  Resizer
	Ahead    Ahead
	configs  configs
	logs     logs
	// durable is true if this process has made the checkpoint durable, or need not do so.
	durable bool
	// unanswered is true if the runtime may still be creating a sandbox: a call to create one ended without a
	// response, or its name is reserved.
	unanswered bool
	// decidedOn contains the newest containers, by name, at the time when podrun decided on the actions of
	// the current pass.
	decidedOn map[string]lifecycle.Container
	// unknownPIDs counts, by container name, the starts that failed because the runtime did not know the PID of
	// the sandbox (cri.NoSandboxPID).
	unknownPIDs map[string]int
	// Repeats are the errors of the starts of the current pass that failed for this reason. If there is a next
	// pass, it repeats these starts.
	Repeats []error
	// onStart is called with the path of the log for each container that was started.
	onStart func(c lifecycle.Container, log string)
}

// fail records that one container cannot be started.
func (st *Starter) fail(err error) { st.Failures = append(st.Failures, pod.OfPod(st.pod.Plan.ID, err)) }

// New returns the starter of the lease's pod. The argument puller is nil for an operation that starts
// no containers. The function onStart is called for each started container, with the path of its log.
func New(l *lease.Lease, s *stop.Stopper, r *stop.Remover, puller *node.Puller, onStart func(lifecycle.Container, string)) *Starter {
	st := &Starter{pod: l.Pod, lease: l, stop: s, remove: r, unknownPIDs: map[string]int{}, onStart: onStart}
	st.Images = Images{puller: puller, taken: map[string]bool{}, Waiter: ForegroundImages{st}}
	st.Volumes = Volumes{pod: l.Pod, lease: l}
	st.Hooks = Hooks{pod: l.Pod, lease: l, stop: s, fail: st.fail}
	st.configs = configs{l.Pod, l}
	st.Ahead = Ahead{
		pod:           l.Pod,
		lease:         l,
		stop:          s,
		images:        &st.Images,
		volumes:       &st.Volumes,
		configs:       st.configs,
		sandboxConfig: st.sandboxConfig,
		failed:        map[string]bool{},
	}
	st.logs = logs{l.Pod}
	st.Resizer = Resizer{pod: l.Pod, fail: st.fail}
	return st
}

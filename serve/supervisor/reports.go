package supervisor

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/stop"
)

// Reports receives changes of pods, for a source that must know them, such as an API server. The
// pods' goroutines call its methods, which must not block.
type Reports interface {
	// Grace returns the grace period for the removal of a pod that its source no longer defines. It
	// returns nil if the pod's own grace period applies. If the period becomes shorter during a
	// removal, podrun repeats the removal with the shorter period.
	Grace(id identity.Pod) *time.Duration
	// Stopped receives the status of a pod that podrun is removing, when all containers of the pod
	// have stopped.
	Stopped(id identity.Pod, status corev1.PodStatus)
	// Concluded is called after each step for a pod, with its error. The argument known is false if the
	// pod is not on this host and no source defines it.
	Concluded(id identity.Pod, known bool, err error)
}

// grace returns the grace period for the removal of a pod; or nil for the pod's own grace period.
func (p *pod) grace(id identity.Pod) *time.Duration {
	if p.s.options.Reports == nil {
		return nil
	}
	return p.s.options.Reports.Grace(id)
}

// removal returns the options for the removal of a pod.
func (p *pod) removal(in stepInput) stop.RemoveOptions {
	if p.s.options.Reports == nil {
		return stop.RemoveOptions{}
	}
	return stop.RemoveOptions{Grace: in.grace, Report: func(s corev1.PodStatus) { p.s.options.Reports.Stopped(in.id, s) }}
}

// hurried reports whether a removal must be repeated with a shorter grace period.
func (p *pod) hurried(begun stepInput) bool {
	now := p.grace(begun.id)
	return now != nil && (begun.grace == nil || *now < *begun.grace)
}

// concluded reports the end of a step to Reports.
func (p *pod) concluded(in stepInput, err error) {
	if r := p.s.options.Reports; r != nil {
		r.Concluded(in.id, in.exists() || in.Source != NoSource, err)
	}
}

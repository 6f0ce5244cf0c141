package supervisor

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/stop"
)

// Reports is implemented by a source that must know what happens to its pods, such as an API server.
// Its methods are called by the pods' goroutines and must not block.
type Reports interface {
	// Grace returns the grace period for the removal of a pod that its source no longer defines. It
	// returns nil for the pod's own grace period. If it shortens during a removal, podrun repeats the
	// removal with the shorter period.
	Grace(id identity.Pod) *time.Duration
	// Stopped receives the status of a pod that podrun removes, when all its containers have stopped.
	Stopped(id identity.Pod, status corev1.PodStatus)
	// Concluded is called after each step for a pod, with its error. known is false if the pod is not on
	// this host and no source defines it.
	Concluded(id identity.Pod, known bool, err error)
}

// grace returns the grace period for the removal of a pod; nil for its own.
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

// concluded reports the end of a step.
func (p *pod) concluded(in stepInput, err error) {
	if r := p.s.options.Reports; r != nil {
		r.Concluded(in.id, in.Exists || in.Source != NoSource, err)
	}
}

package pod

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// defaultGrace is the API's default for terminationGracePeriodSeconds. It applies if podrun knows
// the pod's containers but not its definition.
const defaultGrace = 30 * time.Second

// GracePeriod returns the pod's termination grace period.
func (p *Pod) GracePeriod() time.Duration { return gracePeriod(p.Spec(), p.Observed) }

// GraceOf returns the termination grace period of a pod whose containers are not observed. The pod may
// be nil.
func GraceOf(p *corev1.Pod) time.Duration {
	if p == nil {
		p = &corev1.Pod{}
	}
	return gracePeriod(p, &lifecycle.Observed{})
}

func gracePeriod(pod *corev1.Pod, obs *lifecycle.Observed) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	for _, c := range obs.Containers {
		if n, err := strconv.Atoi(c.Annotations[identity.AnnotationPodTerminationGrace]); err == nil {
			return time.Duration(n) * time.Second
		}
	}
	return defaultGrace
}

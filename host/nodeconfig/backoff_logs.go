package nodeconfig

import (
	"cmp"
	"fmt"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/resource"
)

// The gates of the back-off of containers that crash, with their defaults in v1.36
// (pkg/features/kube_features.go): KEP-4603.
const (
	gateBackOffMax     = "KubeletCrashLoopBackOffMax"         // beta, on
	gateReducedBackOff = "ReduceDefaultCrashLoopBackOffDecay" // alpha, off
)

// CrashLoopBackOff returns the first and the longest delay before a container that
// crashes is started again (newCrashLoopBackOff in pkg/kubelet/kubelet.go, and the
// defaults of the configuration): 10 s and 5 minutes. MaxContainerRestartPeriod is
// the longest, and bounds the first. With ReduceDefaultCrashLoopBackOffDecay the
// first is 1 s; only without KubeletCrashLoopBackOffMax the longest is a minute then,
// since that gate sets the period to 5 minutes where the file does not.
func (s Settings) CrashLoopBackOff() (first, longest time.Duration) {
	first, longest = 10*time.Second, 5*time.Minute
	if s.Gate(gateReducedBackOff, false) {
		first, longest = time.Second, time.Minute
	}
	if s.Gate(gateBackOffMax, true) {
		longest = cmp.Or(s.MaxContainerRestartPeriod, 5*time.Minute)
		first = min(first, longest)
	}
	return first, longest
}

// LogMaxSize returns ContainerLogMaxSize in bytes: from which size on a container's
// log is rotated. A negative one is never; 0 is every time it is looked at, as in the
// kubelet. It is an error if it is not a quantity.
func (s Settings) LogMaxSize() (int64, error) {
	q, err := resource.ParseQuantity(s.ContainerLogMaxSize)
	if err != nil {
		return 0, fmt.Errorf("containerLogMaxSize %q is not a quantity, such as 10Mi: %w", s.ContainerLogMaxSize, err)
	}
	return q.Value(), nil
}

// checkSupervision checks what only a supervisor of pods uses.
func (f *file) checkSupervision(kc *kubelet.KubeletConfiguration) {
	if n := deref(kc.ContainerLogMaxWorkers, 1); n < 1 {
		f.invalid("containerLogMaxWorkers", fmt.Sprintf("%d is less than 1", n), "")
	}
	if d := kc.ContainerLogMonitorInterval; d != nil && d.Duration < 3*time.Second {
		f.invalid("containerLogMonitorInterval", fmt.Sprintf("%s is less than 3s", d.Duration), "")
	}
	period, field := kc.CrashLoopBackOff.MaxContainerRestartPeriod, "crashLoopBackOff.maxContainerRestartPeriod"
	switch on, said := kc.FeatureGates[gateBackOffMax]; {
	case period == nil:
	case said && !on:
		f.invalid(field, "it must not be set while the feature gate "+gateBackOffMax+" is off", "")
	case period.Duration < time.Second || period.Duration > 5*time.Minute:
		f.invalid(field, fmt.Sprintf("%s is not between 1s and 5m0s", period.Duration), "")
	}
}

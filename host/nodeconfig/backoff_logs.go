package nodeconfig

import (
	"cmp"
	"fmt"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/resource"
)

// The feature gates for the back-off of crashing containers, with their defaults in v1.36
// (pkg/features/kube_features.go): KEP-4603.
const (
	gateBackOffMax     = "KubeletCrashLoopBackOffMax"         // beta, on
	gateReducedBackOff = "ReduceDefaultCrashLoopBackOffDecay" // alpha, off
)

// CrashLoopBackOff returns the initial and the maximum delay before podrun restarts a crashing
// container (newCrashLoopBackOff in pkg/kubelet/kubelet.go, and the defaults of the
// configuration). They are 10 s and 5 minutes. MaxContainerRestartPeriod sets the maximum. The
// initial delay cannot be longer than it. If the gate ReduceDefaultCrashLoopBackOffDecay is
// enabled, the initial delay is 1 s and the maximum is a minute. If the gate
// KubeletCrashLoopBackOffMax is also enabled, the maximum is 5 minutes, because this gate sets
// the default of the period.
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

// LogMaxSize returns ContainerLogMaxSize in bytes. At this size, podrun rotates the log of a
// container. A negative size disables rotation. With 0, podrun rotates the log at every check,
// like the kubelet. It returns an error if the quantity is invalid.
func (s Settings) LogMaxSize() (int64, error) {
	q, err := resource.ParseQuantity(s.ContainerLogMaxSize)
	if err != nil {
		return 0, fmt.Errorf("containerLogMaxSize %q is not a quantity, such as 10Mi: %w", s.ContainerLogMaxSize, err)
	}
	return q.Value(), nil
}

// checkSupervision checks the settings that only a supervisor uses.
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

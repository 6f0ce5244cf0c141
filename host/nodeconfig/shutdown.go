package nodeconfig

import (
	"fmt"
	"slices"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
)

// ShutdownPeriods returns the times that pods have to terminate when the host shuts down. Lower
// priorities come first. The times are those of shutdownGracePeriodByPodPriority (KEP-2712), or the
// equivalents of shutdownGracePeriod and shutdownGracePeriodCriticalPods (KEP-2000). It returns nil
// if podrun does not stop pods before the shutdown, which is the kubelet's default.
func (s Settings) ShutdownPeriods() []kubelet.ShutdownGracePeriodByPodPriority {
	if !s.Gate("GracefulNodeShutdown", true) {
		return nil
	}
	out := slices.Clone(s.ShutdownGracePeriodByPodPriority)
	if len(out) == 0 && s.ShutdownGracePeriod > 0 {
		critical := min(s.ShutdownGracePeriodCriticalPods, s.ShutdownGracePeriod)
		out = []kubelet.ShutdownGracePeriodByPodPriority{
			{Priority: scheduling.DefaultPriorityWhenNoDefaultClassExists, ShutdownGracePeriodSeconds: int64((s.ShutdownGracePeriod - critical) / time.Second)},
			{Priority: scheduling.SystemCriticalPriority, ShutdownGracePeriodSeconds: int64(critical / time.Second)},
		}
	}
	slices.SortStableFunc(out, func(a, b kubelet.ShutdownGracePeriodByPodPriority) int {
		return int(int64(a.Priority) - int64(b.Priority))
	})
	return out
}

// ShutdownDelay returns how long ShutdownPeriods may delay a shutdown of the host.
func (s Settings) ShutdownDelay() time.Duration {
	var sum time.Duration
	for _, p := range s.ShutdownPeriods() {
		sum += time.Duration(p.ShutdownGracePeriodSeconds) * time.Second
	}
	return sum
}

// checkShutdown checks the periods like the kubelet. It also rejects negative periods.
func (f *file) checkShutdown(kc *kubelet.KubeletConfiguration) {
	all, critical := kc.ShutdownGracePeriod.Duration, kc.ShutdownGracePeriodCriticalPods.Duration
	for _, p := range []struct {
		field string
		value time.Duration
	}{{"shutdownGracePeriod", all}, {"shutdownGracePeriodCriticalPods", critical}} {
		if p.value != 0 && p.value < time.Second {
			f.invalid(p.field, fmt.Sprintf("%s is neither 0 nor at least 1s", p.value), "")
		}
		if (p.value > 0 || len(kc.ShutdownGracePeriodByPodPriority) > 0) && !gateOf(kc, "GracefulNodeShutdown") {
			f.invalid(p.field, "requires the feature gate GracefulNodeShutdown", "")
		}
	}
	if critical > all {
		f.invalid("shutdownGracePeriodCriticalPods", fmt.Sprintf("%s is more than shutdownGracePeriod, which is %s", critical, all), "it is part of shutdownGracePeriod")
	}
	const byPriority = "shutdownGracePeriodByPodPriority"
	periods := kc.ShutdownGracePeriodByPodPriority
	if len(periods) == 0 {
		return
	}
	if all > 0 || critical > 0 {
		f.invalid(byPriority, "set together with shutdownGracePeriod", "use one of them")
	}
	if !gateOf(kc, "GracefulNodeShutdownBasedOnPodPriority") {
		f.invalid(byPriority, "requires the feature gate GracefulNodeShutdownBasedOnPodPriority", "")
	}
	if len(periods) > maxPeriods {
		f.invalid(byPriority, fmt.Sprintf("%d periods, more than the limit of %d", len(periods), maxPeriods), "")
		return
	}
	for i, p := range periods {
		if p.ShutdownGracePeriodSeconds < 0 || p.ShutdownGracePeriodSeconds > maxPeriod {
			f.invalid(fmt.Sprintf("%s[%d].shutdownGracePeriodSeconds", byPriority, i), fmt.Sprintf("%d is not between 0 and %d", p.ShutdownGracePeriodSeconds, maxPeriod), "")
		}
	}
}

// Limits of shutdownGracePeriodByPodPriority.
const (
	maxPeriods = 64
	maxPeriod  = 24 * 60 * 60 // seconds
)

func gateOf(kc *kubelet.KubeletConfiguration, name string) bool {
	on, set := kc.FeatureGates[name]
	return on || !set
}

// mergeShutdown overrides the shutdown settings of s with those of a valid file. If the file
// uses one of the two forms, mergeShutdown removes the settings of the other form.
func mergeShutdown(s *Settings, kc *kubelet.KubeletConfiguration) {
	if d := kc.ShutdownGracePeriod.Duration; d != 0 {
		s.ShutdownGracePeriod, s.ShutdownGracePeriodCriticalPods, s.ShutdownGracePeriodByPodPriority = d, kc.ShutdownGracePeriodCriticalPods.Duration, nil
	}
	if len(kc.ShutdownGracePeriodByPodPriority) > 0 {
		s.ShutdownGracePeriod, s.ShutdownGracePeriodCriticalPods, s.ShutdownGracePeriodByPodPriority = 0, 0, kc.ShutdownGracePeriodByPodPriority
	}
}

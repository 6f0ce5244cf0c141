package nodeconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestShutdownPeriods(t *testing.T) {
	const kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	by := func(periods ...string) string {
		return "shutdownGracePeriodByPodPriority: [" + strings.Join(periods, ", ") + "]\n"
	}
	for _, c := range []struct{ name, file, want, problem string }{
		{"none, as by default", "maxPods: 3\n", "", ""},
		{"both periods", "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n", "0:20 2000000000:10", ""},
		{"one period", "shutdownGracePeriod: 1m\n", "0:60 2000000000:0", ""},
		{"by priority, sorted", by("{priority: 100, shutdownGracePeriodSeconds: 5}", "{priority: 0, shutdownGracePeriodSeconds: 7}"), "0:7 100:5", ""},
		{"turned off", "shutdownGracePeriod: 30s\nfeatureGates: {GracefulNodeShutdown: false}\n", "", "shutdownGracePeriod: requires the feature gate GracefulNodeShutdown"},
		{"less than a second", "shutdownGracePeriod: 500ms\n", "", "shutdownGracePeriod: 500ms is neither 0 nor at least 1s"},
		{"negative", "shutdownGracePeriod: -1s\n", "", "neither 0 nor at least 1s"},
		{"more for critical pods", "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 11s\n", "", "shutdownGracePeriodCriticalPods: 11s is more than shutdownGracePeriod"},
		{"both forms", "shutdownGracePeriod: 10s\n" + by("{priority: 0, shutdownGracePeriodSeconds: 7}"), "", "set together with shutdownGracePeriod"},
		{"without the gate", "featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}\n" + by("{priority: 0, shutdownGracePeriodSeconds: 7}"), "", "requires the feature gate GracefulNodeShutdownBasedOnPodPriority"},
		{"a negative period", by("{priority: 0, shutdownGracePeriodSeconds: -7}"), "", "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: -7 is not between"},
		{"too many", by(strings.Split(strings.Repeat("{priority: 0, shutdownGracePeriodSeconds: 1};", 64)+"{priority: 1}", ";")...), "", "65 periods, more than the limit of 64"},
	} {
		settings, problems := Parse([]byte(kind+c.file), Default())
		var got []string
		var sum time.Duration
		for _, p := range settings.ShutdownPeriods() {
			got = append(got, fmt.Sprintf("%d:%d", p.Priority, p.ShutdownGracePeriodSeconds))
			sum += time.Duration(p.ShutdownGracePeriodSeconds) * time.Second
		}
		if text := strings.Join(got, " "); text != c.want || settings.ShutdownDelay() != sum {
			t.Errorf("%s: %s, %s in all; want %s", c.name, text, settings.ShutdownDelay(), c.want)
		}
		errs := fmt.Sprint(problems.Errors())
		if c.problem == "" && len(problems.Errors()) > 0 || !strings.Contains(errs, c.problem) {
			t.Errorf("%s: problems %s, want %q", c.name, errs, c.problem)
		}
	}
}

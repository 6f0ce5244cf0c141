package system

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/host/nodeconfig"
)

// shutdownFlags are the grace periods of pods when the host shuts down. If they are set, they
// override the settings file, as all flags do.
type shutdownFlags struct {
	period, critical time.Duration
	given            bool
}

const (
	shutdownFlag         = "shutdown-grace-period"
	shutdownCriticalFlag = "shutdown-grace-period-critical-pods"
)

func (f *shutdownFlags) add(set *pflag.FlagSet, period, critical time.Duration) {
	set.DurationVar(&f.period, shutdownFlag, period, "total time for pods, including critical ones, to terminate before the host shuts down; with 0, podrun does not stop pods")
	set.DurationVar(&f.critical, shutdownCriticalFlag, critical, "part of --shutdown-grace-period that is reserved for critical pods, which terminate last")
}

// check validates the flags by the rules of the settings file, and records whether they
// were set.
func (f *shutdownFlags) check(set *pflag.FlagSet) error {
	f.given = set.Changed(shutdownFlag) || set.Changed(shutdownCriticalFlag)
	for name, value := range map[string]time.Duration{shutdownFlag: f.period, shutdownCriticalFlag: f.critical} {
		if value != 0 && value < time.Second {
			return fmt.Errorf("--%s must be 0 or at least 1s", name)
		}
	}
	if set.Changed(shutdownFlag) && !set.Changed(shutdownCriticalFlag) {
		f.critical = min(f.critical, f.period)
	}
	if f.critical > f.period {
		return fmt.Errorf("--%s must not be more than --%s", shutdownCriticalFlag, shutdownFlag)
	}
	return nil
}

// override overrides the settings with the flags, if they were set.
func (f *shutdownFlags) override(s *nodeconfig.Settings) {
	if f.given {
		s.ShutdownGracePeriod = f.period
		s.ShutdownGracePeriodCriticalPods = f.critical
		s.ShutdownGracePeriodByPodPriority = nil
	}
}

// arguments returns the two flags for the service if the user has set one of them, or if the settings file has no
// periods. A flag that the user has not set has its default value.
func (f *shutdownFlags) arguments(s *nodeconfig.Settings) []string {
	f.given = f.given || s.ShutdownDelay() == 0
	f.override(s)
	if !f.given {
		return nil
	}
	return []string{"--" + shutdownFlag + "=" + f.period.String(), "--" + shutdownCriticalFlag + "=" + f.critical.String()}
}

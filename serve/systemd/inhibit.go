package systemd

import (
	"bytes"
	"fmt"
	"time"
)

// DelayPath is the drop-in by which logind delays a shutdown for long enough
// (logind.conf(5)).
const DelayPath = "/etc/systemd/logind.conf.d/50-podrun.conf"

// defaultDelay is logind's InhibitDelayMaxSec without a drop-in.
const defaultDelay = 5 * time.Second

// DelayMargin is added to the periods of pods for logind's delay: the time for recording
// that pods were stopped, and for calls to the runtime.
const DelayMargin = 5 * time.Second

// delayDropIn is the drop-in's text for pods that get so long to end; nil if logind
// waits for that long by default.
func delayDropIn(periods time.Duration) []byte {
	if periods <= 0 || periods+DelayMargin <= defaultDelay {
		return nil
	}
	seconds := (periods + DelayMargin + time.Second - 1) / time.Second
	return fmt.Appendf(nil, "%s\n# Pods get %s to end before the host shuts down.\n[Login]\nInhibitDelayMaxSec=%d\n", marker, periods, seconds)
}

// isDelay reports whether Install wrote a drop-in.
func isDelay(text []byte) bool { return bytes.HasPrefix(text, []byte(marker+"\n")) }

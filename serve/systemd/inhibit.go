package systemd

import (
	"bytes"
	"fmt"
	"time"
)

// DelayPath is the drop-in that makes logind delay a shutdown for long enough
// (logind.conf(5)).
const DelayPath = "/etc/systemd/logind.conf.d/50-podrun.conf"

// defaultDelay is the InhibitDelayMaxSec that logind uses without a drop-in.
const defaultDelay = 5 * time.Second

// DelayMargin is the time by which logind's delay exceeds the pods' shutdown periods. podrun needs
// this time for calls to the runtime and to record that it stopped the pods.
const DelayMargin = 5 * time.Second

// delayDropIn returns the text of the drop-in for the given shutdown periods. It returns nil if
// logind's default delay is long enough.
func delayDropIn(periods time.Duration) []byte {
	if periods <= 0 || periods+DelayMargin <= defaultDelay {
		return nil
	}
	seconds := (periods + DelayMargin + time.Second - 1) / time.Second
	return fmt.Appendf(nil, "%s\n# Pods have %s to terminate before the host shuts down.\n[Login]\nInhibitDelayMaxSec=%d\n", marker, periods, seconds)
}

// isDelay reports whether Install wrote the given drop-in.
func isDelay(text []byte) bool { return bytes.HasPrefix(text, []byte(marker+"\n")) }

package wait

import (
	"strconv"
	"time"
)

// Next returns the delay that follows last in a back-off: first after the delay 0, then twice the last one, up to
// longest. It is pure, so that a recorded delay and a loop can use it.
func Next(last, first, longest time.Duration) time.Duration {
	return min(max(2*last, first), longest)
}

// Nth returns the n-th delay of a back-off, as Next would after n calls; 0 if n is 0 or less.
func Nth(n int, first, longest time.Duration) (delay time.Duration) {
	for ; n > 0 && delay < longest; n-- {
		delay = Next(delay, first, longest)
	}
	return delay
}

// RetryAfter returns the delay that a server requests (RFC 9110, section 10.2.3): a number of seconds or a date. It also
// accepts a duration such as 1.2ms, which registries write in messages. It returns 0 for other values, and at most
// longest.
func RetryAfter(value string, now time.Time, longest time.Duration) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if d, err := time.ParseDuration(value); err == nil {
		wait = d
	} else if at, err := time.Parse(time.RFC1123, value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longest)
}

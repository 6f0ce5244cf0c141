package imagepull

import "time"

// The kubelet's figures for images (pkg/kubelet: MaxImageBackOff, imageBackOffPeriod).
const (
	backOffInitial = 10 * time.Second
	backOffMax     = 300 * time.Second
)

// backOff remembers how long to wait before an image is pulled again: 10 s at
// first, doubled each time, 300 s at most. The zero value is ready. It is not
// safe for concurrent use.
type backOff struct{ entries map[backOffKey]backOffEntry }

// backOffKey is one image of one pod.
type backOffKey struct{ UID, Ref string }

type backOffEntry struct {
	delay  time.Duration
	failed time.Time
}

// Fail notes a failed pull and returns how long to wait. A failure long after
// the last one, twice the longest wait, counts as a first.
func (b *backOff) Fail(key backOffKey, now time.Time) time.Duration {
	if b.entries == nil {
		b.entries = map[backOffKey]backOffEntry{}
	}
	delay := backOffInitial
	if last, ok := b.entries[key]; ok && now.Sub(last.failed) <= 2*backOffMax {
		delay = min(2*last.delay, backOffMax)
	}
	b.entries[key] = backOffEntry{delay: delay, failed: now}
	return delay
}

// Left is how long the image is still to be waited for, 0 if not at all.
func (b *backOff) Left(key backOffKey, now time.Time) time.Duration {
	last, ok := b.entries[key]
	if !ok {
		return 0
	}
	return max(last.failed.Add(last.delay).Sub(now), 0)
}

// restore takes in a failure of an earlier process, unless it counts no more. One
// of the future is of a clock that was set back: it counts from now.
func (b *backOff) restore(key backOffKey, delay time.Duration, failed, now time.Time) {
	if failed.After(now) {
		failed = now
	}
	if _, known := b.entries[key]; known || delay <= 0 || delay > backOffMax || now.Sub(failed) > 2*backOffMax {
		return
	}
	if b.entries == nil {
		b.entries = map[backOffKey]backOffEntry{}
	}
	b.entries[key] = backOffEntry{delay: delay, failed: failed}
}

// Succeed forgets the image's failures.
func (b *backOff) Succeed(key backOffKey) { delete(b.entries, key) }

package imagepull

import (
	"fmt"
	"maps"
	"time"
)

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
	asked  time.Duration // the delay that the registry requested; at most maxRetryAfter
	failed time.Time
	why    why
}

// wait is how long the image is not pulled again after its failure.
func (e backOffEntry) wait() time.Duration { return max(e.delay, e.asked) }

// why is the waiting state of a container that waits for the image.
type why struct {
	Image      string   `json:"image,omitempty"` // as the pod writes it
	Containers []string `json:"containers,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Message    string   `json:"message,omitempty"`
}

// Fail notes a failed pull and returns how long to wait: as long as the registry asked
// for, if that is longer than the back-off. A failure long after the last one, twice the
// longest wait, counts as a first.
func (b *backOff) Fail(key backOffKey, because why, asked time.Duration, now time.Time) time.Duration {
	delay := backOffInitial
	if last, ok := b.entries[key]; ok && now.Sub(last.failed) <= 2*backOffMax {
		delay = min(2*last.delay, backOffMax)
	}
	e := backOffEntry{delay: delay, asked: asked, failed: now, why: because}
	b.put(key, e)
	return e.wait()
}

func (b *backOff) put(key backOffKey, e backOffEntry) {
	if b.entries == nil {
		b.entries = map[backOffKey]backOffEntry{}
	}
	b.entries[key] = e
}

// Left is how long the image is still to be waited for, 0 if not at all.
func (b *backOff) Left(key backOffKey, now time.Time) time.Duration {
	last, ok := b.entries[key]
	if !ok {
		return 0
	}
	return max(last.failed.Add(last.wait()).Sub(now), 0)
}

// restore takes over a failure of an earlier process, unless it has expired. If it is in
// the future, because the clock was set back, it counts from now.
func (b *backOff) restore(key backOffKey, e backOffEntry, now time.Time) {
	if e.failed.After(now) {
		e.failed = now
	}
	if _, known := b.entries[key]; known || e.delay <= 0 || e.wait() > backOffMax || e.asked < 0 || now.Sub(e.failed) > 2*backOffMax {
		return
	}
	b.put(key, e)
}

// Failure is the reason why a container waits for its image, with the kubelet's message.
type Failure struct {
	Reason  string // ErrImagePull, ImagePullBackOff, InvalidImageName…
	Message string
	At      time.Time // when the last try failed
}

// failures are those of a pod's containers, by name.
func (b *backOff) failures(uid string, now time.Time) map[string]Failure {
	out := map[string]Failure{}
	for key, e := range b.entries {
		if key.UID != uid || e.why.Reason == "" {
			continue
		}
		f := Failure{Reason: e.why.Reason, Message: e.why.Message, At: e.failed}
		if b.Left(key, now) > 0 {
			f.Reason = ReasonBackOff
			f.Message = fmt.Sprintf("Back-off pulling image %q: %s: %s", e.why.Image, e.why.Reason, e.why.Message)
		}
		for _, name := range e.why.Containers {
			out[name] = f
		}
	}
	return out
}

// Succeed forgets the image's failures.
func (b *backOff) Succeed(key backOffKey) { delete(b.entries, key) }

// forget drops all images of a pod.
func (b *backOff) forget(uid string) {
	maps.DeleteFunc(b.entries, func(key backOffKey, _ backOffEntry) bool { return key.UID == uid })
}

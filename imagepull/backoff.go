package imagepull

import (
	"fmt"
	"maps"
	"time"

	"github.com/podrun/podrun/internal/wait"
)

// The kubelet's values for images (pkg/kubelet: MaxImageBackOff, imageBackOffPeriod).
const (
	backOffInitial = 10 * time.Second
	backOffMax     = 300 * time.Second
)

// backOff records the delay before podrun pulls an image again: 10 s at first, doubled after each
// failure, up to 300 s. The zero value is ready to use. It is not safe for concurrent use.
type backOff struct{ entries map[backOffKey]backOffEntry }

// backOffKey identifies one image of one pod.
type backOffKey struct{ UID, Ref string }

type backOffEntry struct {
	delay time.Duration
	// the delay that the registry requested, limited to backOffMax
	asked  time.Duration
	failed time.Time
	why    why
}

// wait returns the delay between the failure and the next pull of the image.
func (e backOffEntry) wait() time.Duration { return max(e.delay, e.asked) }

// why describes the reason why containers wait for the image.
type why struct {
	Image      string   `json:"image,omitempty"` // as written in the pod
	Containers []string `json:"containers,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Message    string   `json:"message,omitempty"`
}

// Fail records a failed pull. It returns the delay before the next attempt: the back-off, or the
// delay that the registry requested if that is longer. If the previous failure is older than twice
// the longest back-off, the back-off starts again.
func (b *backOff) Fail(key backOffKey, because why, asked time.Duration, now time.Time) time.Duration {
	delay := backOffInitial
	if last, ok := b.entries[key]; ok && now.Sub(last.failed) <= 2*backOffMax {
		delay = wait.Next(last.delay, backOffInitial, backOffMax)
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

// Left returns the remaining time of the image's back-off, or 0.
func (b *backOff) Left(key backOffKey, now time.Time) time.Duration {
	last, ok := b.entries[key]
	if !ok {
		return 0
	}
	return max(last.failed.Add(last.wait()).Sub(now), 0)
}

// restore adds a failure that an earlier process recorded, unless it has expired. If the time of
// the failure is in the future, the clock was set back. restore then treats the failure as if it
// happened now.
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
	Reason  string // such as ErrImagePull, ImagePullBackOff or InvalidImageName
	Message string
	At      time.Time // time of the last failed attempt
}

// failures returns the failures of a pod's containers, by container name.
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

// Succeed removes the recorded failures of an image that podrun has pulled.
func (b *backOff) Succeed(key backOffKey) { delete(b.entries, key) }

// forget removes the back-off of all images of a pod.
func (b *backOff) forget(uid string) {
	maps.DeleteFunc(b.entries, func(key backOffKey, _ backOffEntry) bool { return key.UID == uid })
}

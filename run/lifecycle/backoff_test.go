package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
)

func TestRestartDelay(t *testing.T) {
	for _, tc := range []struct {
		restarts  uint32
		ran, want time.Duration
	}{
		{0, time.Second, 0},
		{1, time.Second, 10 * time.Second},
		{2, 0, 20 * time.Second},
		{3, time.Minute, 40 * time.Second},
		{4, time.Second, 80 * time.Second},
		{5, time.Second, 160 * time.Second},
		{6, time.Second, 300 * time.Second},
		{7, time.Second, 300 * time.Second},
		{4_000_000_000, time.Second, 300 * time.Second},
		{5, 10*time.Minute - 1, 160 * time.Second},
		{5, 10 * time.Minute, 0},
	} {
		c := &Container{Restarts: tc.restarts, StartedAt: statusT0, FinishedAt: statusT0.Add(tc.ran)}
		if got := RestartDelay(c, RestartBackOff{}); got != tc.want {
			t.Errorf("restart %d after %s: %s, want %s", tc.restarts, tc.ran, got, tc.want)
		}
	}
}

// TestNextBackOff checks the delay that podrun stores on the new container. The delay is reset if
// the spec changed or the last run was long.
func TestNextBackOff(t *testing.T) {
	with := func(delay string, ran time.Duration) *Container {
		c := &Container{Hash: "h", Restarts: 3, StartedAt: statusT0, FinishedAt: statusT0.Add(ran)}
		if delay != "" {
			c.Annotations = map[string]string{identity.AnnotationBackOff: delay}
		}
		return c
	}
	for _, tc := range []struct {
		name string
		last *Container
		hash string
		want time.Duration
	}{
		{"the first", nil, "h", 0},
		{"the second", &Container{Hash: "h"}, "h", 10 * time.Second},
		{"the third", with("10s", time.Second), "h", 20 * time.Second},
		{"the longest", with("160s", time.Second), "h", 300 * time.Second},
		{"another spec", with("160s", time.Second), "h2", 0},
		{"after a long run", with("160s", 10*time.Minute), "h", 10 * time.Second},
		{"no delay is kept", with("", time.Second), "h", 80 * time.Second},
		{"nonsense is kept", with("soon", time.Second), "h", 80 * time.Second},
		{"less than nothing is kept", with("-5s", time.Second), "h", 10 * time.Second},
		{"years are kept", with("90000h", time.Second), "h", 300 * time.Second},
	} {
		if got := NextBackOff(tc.last, tc.hash, RestartBackOff{}); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestBackOffLimits lists the restart delays of a container that exits immediately, from its first
// restart, for several node settings.
func TestBackOffLimits(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name   string
		limits RestartBackOff
		want   []time.Duration
	}{
		{"the defaults", RestartBackOff{}, []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}},
		{"a shorter longest", RestartBackOff{10 * s, 30 * s}, []time.Duration{0, 10 * s, 20 * s, 30 * s, 30 * s}},
		{"reduced", RestartBackOff{s, 60 * s}, []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}},
		{"always the same", RestartBackOff{s, s}, []time.Duration{0, s, s, s}},
	} {
		var last *Container
		for i, want := range tc.want {
			c := &Container{Hash: "h", Restarts: uint32(i), StartedAt: statusT0, FinishedAt: statusT0.Add(s)}
			if last != nil {
				c.Annotations = map[string]string{identity.AnnotationBackOff: NextBackOff(last, "h", tc.limits).String()}
			}
			if got := RestartDelay(c, tc.limits); got != want {
				t.Errorf("%s: restart %d waits %s, want %s", tc.name, i, got, want)
			}
			c.Annotations = nil
			if got := RestartDelay(c, tc.limits); got != want {
				t.Errorf("%s: restart %d without the annotation waits %s, want %s", tc.name, i, got, want)
			}
			c.Annotations = map[string]string{identity.AnnotationBackOff: want.String()}
			last = c
		}
	}
}

// TestBackOffOfChangedContainer (conformance C4) checks that an exit of a container with the previous
// definition does not delay the start of the new one. If the stored delay is zero, there must be no
// delay, even if the container was restarted many times before.
func TestBackOffOfChangedContainer(t *testing.T) {
	pod := statusPod(corev1.RestartPolicyAlways, "a")
	obs := statusObserved(t, 1, "a#9=1")
	last := &obs.Containers[0]
	last.Hash, last.Annotations = "old", map[string]string{identity.AnnotationBackOff: "5m0s"}
	w := World{Observed: obs, Hashes: map[string]string{"a": "old"}, Now: last.FinishedAt.Add(time.Second)}
	if d := Next(pod, w); len(d.BackOff) != 1 || len(d.Actions) != 0 {
		t.Errorf("the same definition: %+v, want a back-off", d)
	}
	w.Hashes["a"] = "new"
	if d := Next(pod, w); len(d.BackOff) != 0 || len(d.Actions) != 1 || d.Actions[0].Verb != StartContainer {
		t.Errorf("a changed definition: %+v, want a start", d)
	}
	delay := NextBackOff(last, "new", RestartBackOff{})
	last.Hash, last.Annotations = "new", map[string]string{identity.AnnotationBackOff: delay.String()}
	if d := Next(pod, w); len(d.BackOff) != 0 || len(d.Actions) != 1 {
		t.Errorf("the first exit of the changed container: %+v, want a start", d)
	}
}

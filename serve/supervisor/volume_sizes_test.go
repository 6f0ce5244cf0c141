package supervisor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	evictions "github.com/podrun/podrun/serve/eviction"
)

// scripted is a measurement that takes the time took, and then returns err. It finds the usage evenly.
type scripted struct {
	took, spent time.Duration
	bytes       int64
	err         error
}

func (m *scripted) Continue(ctx context.Context) error {
	begun := time.Now()
	select {
	case <-ctx.Done():
		m.spent += time.Since(begun)
		return context.Cause(ctx)
	case <-time.After(m.took - m.spent):
		m.spent = m.took
		return m.err
	}
}

func (m *scripted) Used() evictions.Disk {
	if m.took == 0 {
		return evictions.Disk{Bytes: m.bytes}
	}
	return evictions.Disk{Bytes: m.bytes * int64(m.spent) / int64(m.took)}
}

func (m *scripted) Close() {}

// withVolumes returns a pod with n emptyDirs.
func withVolumes(uid string, n int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	for i := range n {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return p
}

// sizesOf returns the usage of a pod.
func sizesOf(s *volumeSizes, uid string) *evictions.Usage {
	u := &evictions.Usage{Volumes: map[string]evictions.Disk{}}
	s.add(uid, u)
	return u
}

// TestFailedMeasurementIsNotSmall covers the ends of a measurement. In an earlier version, the sum of a
// walk that containers had ended counted as the size of the volume, and a pod could exceed its limits by any
// amount.
func TestFailedMeasurementIsNotSmall(t *testing.T) {
	prevented := fmt.Errorf("measure: %w", evictions.ErrPrevented)
	for _, tt := range []struct {
		name      string
		script    []scripted // the measurements, in order; the last one is repeated
		want      int64
		unknown   bool
		prevented bool
		warnings  int
	}{
		{name: "complete", script: []scripted{{bytes: 7}}, want: 7},
		{name: "no complete one yet", script: []scripted{{bytes: 0, err: unix.EIO}}, unknown: true, warnings: 3},
		{name: "EIO after a complete one", script: []scripted{{bytes: 7}, {bytes: 2, err: unix.EIO}}, want: 7, warnings: 2},
		{name: "EMFILE, a part is larger", script: []scripted{{bytes: 7}, {bytes: 9, err: unix.EMFILE}}, want: 9, warnings: 2},
		{name: "moved once", script: []scripted{{bytes: 2, err: prevented}, {bytes: 7}}, want: 7},
		{name: "moved twice", script: []scripted{{bytes: 2, err: prevented}, {bytes: 2, err: prevented}, {bytes: 7}}, want: 7},
		{name: "moved always", script: []scripted{{bytes: 2, err: prevented}}, want: 2, prevented: true},
		{name: "moved always, EIO between", script: []scripted{{err: prevented}, {err: unix.EIO}, {err: prevented}, {err: unix.EIO}, {bytes: 1, err: prevented}}, want: 1, prevented: true, warnings: 2},
		{name: "smaller again", script: []scripted{{bytes: 7}, {bytes: 9}, {bytes: 3}}, want: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, warnings := 0, 0
			s := &volumeSizes{warn: func(error) { warnings++ }, begin: func(string, string) measurement {
				m := tt.script[min(n, len(tt.script)-1)]
				n++
				return &m
			}}
			for range 3 {
				s.measure(t.Context(), []*corev1.Pod{withVolumes("a", 1)})
			}
			u := sizesOf(s, "a")
			got, known := u.Volumes["v0"]
			if got.Bytes != tt.want || known == tt.unknown || u.Prevented["v0"] != tt.prevented || warnings != tt.warnings {
				t.Errorf("%+v, %d warnings", u, warnings)
			}
		})
	}
}

// TestMeasurementsAreFair covers pods whose measurement has no end: in each round, each pod gets the same
// time for all its volumes, and long measurements continue in the next round.
func TestMeasurementsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &volumeSizes{warn: func(err error) { t.Error(err) }, begin: func(uid, _ string) measurement {
			switch uid {
			case "endless":
				return &scripted{took: 1000 * time.Hour, bytes: 1 << 20}
			case "large":
				return &scripted{took: 50 * time.Second, bytes: 500}
			}
			return &scripted{took: 10 * time.Millisecond, bytes: 1}
		}}
		pods := []*corev1.Pod{withVolumes("endless", 40), withVolumes("large", 2), withVolumes("a", 1), withVolumes("b", 40)}
		for round := range 8 {
			begun := time.Now()
			s.measure(t.Context(), pods)
			if took := time.Since(begun); took > measureEvery {
				t.Errorf("round %d took %s", round, took)
			}
			for _, uid := range []string{"a", "b"} {
				if u := sizesOf(s, uid); len(u.Volumes) != len(pods[2].Spec.Volumes) && uid == "a" || len(u.Volumes) != 40 && uid == "b" {
					t.Errorf("round %d: pod %s has %d sizes", round, uid, len(u.Volumes))
				}
			}
			u := sizesOf(s, "large")
			if part := u.Volumes["v0"].Bytes; round == 0 && (part < 100 || part > 200) {
				t.Errorf("after its first turn, the large volume has %d bytes", part)
			}
			if round == 7 && (u.Volumes["v0"].Bytes != 500 || u.Volumes["v1"].Bytes != 500) {
				t.Errorf("after 8 rounds, the large volumes have %+v", u.Volumes)
			}
		}
		// A part of a first measurement is not the size of the volume.
		if u := sizesOf(s, "endless"); u.Volumes["v0"].Bytes == 0 || len(u.Prevented) > 0 || !u.Unmeasured {
			t.Errorf("the endless volume has %+v", u)
		}
		if u := sizesOf(s, "large"); u.Unmeasured {
			t.Errorf("the large volumes have %+v", u)
		}
		// An interrupted round begins the next one with the pods that had no turn.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.measure(ctx, pods)
		if ctx.Err() == nil {
			t.Error("the round was not interrupted")
		}
		if next := s.turns(pods)[0].uid; next == "endless" {
			t.Error("the next round begins with the pod that had the last turn")
		}
		// Pods that no longer exist are forgotten.
		time.Sleep(forgetAfter)
		s.measure(t.Context(), pods[2:])
		if u := sizesOf(s, "large"); len(u.Volumes) > 0 {
			t.Errorf("a pod that is not measured has %+v", u)
		}
	})
}

// TestRequestedRound covers a ranking while a round is running: it ends this round.
func TestRequestedRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds()
		round, all := r.begin(t.Context())
		if all != nil {
			t.Error("no round with all pods was requested")
		}
		done := r.requestAll()
		<-round.Done()
		if !errors.Is(context.Cause(round), context.Canceled) {
			t.Error(context.Cause(round))
		}
		r.end(all)
		if again := r.requestAll(); again != done {
			t.Error("two requests cause two rounds")
		}
		_, all = r.begin(t.Context())
		r.end(all)
		<-done
		if !r.takeFresh() || r.takeFresh() {
			t.Error("the end of a round is not reported once")
		}
		select {
		case <-r.wake:
			t.Error("a request causes two rounds")
		default:
		}
	})
}

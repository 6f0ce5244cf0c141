package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, why := time.Now(), errors.New("interrupted")
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		begun = time.Now()
		if err := Sleep(ctx, time.Minute); err != why || time.Since(begun) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

func TestPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, one := range []struct{ after, period, want time.Duration }{
			{0, time.Second, time.Second},
			{100 * time.Millisecond, time.Second, 900 * time.Millisecond},
			{200 * time.Millisecond, 10 * time.Second, 10*time.Second - 200*time.Millisecond},
			{700 * time.Millisecond, 10 * time.Second, 10*time.Second + 300*time.Millisecond},
			{100 * time.Millisecond, 1500 * time.Millisecond, 1400 * time.Millisecond},
			{600 * time.Millisecond, time.Second, 1400 * time.Millisecond},
			{100 * time.Millisecond, 999 * time.Millisecond, 999 * time.Millisecond},
		} {
			time.Sleep(one.after)
			if got := Period(one.period); got != one.want {
				t.Errorf("%s after a multiple, the period %s: got %s, want %s", one.after, one.period, got, one.want)
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		}
	})
}

// TestSleepPeriod checks that a task that takes a small part of its period runs once in each period.
func TestSleepPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(130 * time.Millisecond)
		for run := range 10 {
			before := time.Now()
			time.Sleep(3 * time.Millisecond)
			if err := SleepPeriod(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); run > 0 && took != time.Second {
				t.Errorf("run %d after %s", run, took)
			}
			if over := time.Now().Sub(time.Now().Truncate(Alignment)); over != 0 {
				t.Errorf("run %d, %s after a multiple of %s", run, over, Alignment)
			}
		}
	})
}

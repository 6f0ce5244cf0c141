package cmd

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDuring checks that podrun notifies systemd while a slow host starts its runtime.
func TestDuring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, calls := errors.New("failed"), 0
		err := callEvery(20*time.Second, func() { calls++ }, func() error {
			time.Sleep(70 * time.Second)
			return failed
		})
		if err != failed || calls != 3 {
			t.Errorf("%v after %d calls, want 3", err, calls)
		}
		if err := callEvery(20*time.Second, func() { t.Error("called at once") }, func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

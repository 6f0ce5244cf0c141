package relay

import (
	"errors"
	"os"
	"testing"
	"time"
)

type deadlines int

func (d *deadlines) SetReadDeadline(time.Time) error { *d++; return nil }

func TestUntilIdle(t *testing.T) {
	steps := []struct {
		n   int64
		err error
	}{{5, os.ErrDeadlineExceeded}, {1, os.ErrDeadlineExceeded}, {0, os.ErrDeadlineExceeded}, {9, nil}}
	var d deadlines
	at := 0
	err := UntilIdle(&d, func() (int64, error) {
		at++
		return steps[at-1].n, steps[at-1].err
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) || at != 3 || d != 2 {
		t.Errorf("%v after %d calls, %d deadlines", err, at, d)
	}
}

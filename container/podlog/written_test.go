package podlog

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadsLastLine covers a container that has just exited, and whose last line the runtime has not yet
// written. The times are virtual.
func TestReadsLastLine(t *testing.T) {
	for name, tc := range map[string]struct {
		exited time.Duration // before the read
		tail   *int64
		want   string
		took   time.Duration
	}{
		"just now":                  {0, nil, "first\nlast\n", writtenWithin},
		"just now, only one line":   {0, count(1), "last\n", writtenWithin},
		"a while ago":               {writtenWithin, nil, "first\n", 0},
		"the clock has been set":    {-time.Hour, nil, "first\nlast\n", writtenWithin},
		"some milliseconds earlier": {writtenWithin - 200*time.Millisecond, nil, "first\nlast\n", 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, out := newLogFile(t), newScreen()
				l.line("stdout F first")
				time.AfterFunc(100*time.Millisecond, func() { l.line("stdout F last") })
				begun := time.Now()
				err := Stream(t.Context(), Source{Path: l.path, FinishedAt: begun.Add(-tc.exited)}, Output{out, out}, Options{Tail: tc.tail})
				if took := time.Since(begun); err != nil || took != tc.took {
					t.Errorf("%v after %v", err, took)
				}
				out.await(t, tc.want)
			})
		})
	}
}

// TestFollowAwaitsLastLine checks how long a stream that follows waits for the last line of a container that has
// exited, if Source.Last is nil.
func TestFollowAwaitsLastLine(t *testing.T) {
	for name, tc := range map[string]struct {
		exited time.Duration // before now; 0 means an unknown time
		want   time.Duration
	}{
		"seen now":    {0, writtenWithin},
		"just now":    {200 * time.Millisecond, writtenWithin - 200*time.Millisecond},
		"a while ago": {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stream{}
				if tc.exited > 0 {
					s.src.FinishedAt = time.Now().Add(-tc.exited)
				}
				begun, changed := time.Now(), make(chan struct{}, 1)
				if tc.want > 0 {
					changed <- struct{}{}
					if err := s.awaitLast(t.Context(), changed); err != nil || s.last {
						t.Errorf("after a change: complete %v, %v", s.last, err)
					}
				}
				if err := s.awaitLast(t.Context(), changed); err != nil || !s.last || time.Since(begun) != tc.want {
					t.Errorf("complete %v after %v, %v", s.last, time.Since(begun), err)
				}
			})
		})
	}
}

// TestFollowAwaitsWriter checks that the log of a container that has exited counts as complete when the runtime has closed
// it, or a long time after the exit.
func TestFollowAwaitsWriter(t *testing.T) {
	for name, tc := range map[string]struct{ closed, want time.Duration }{
		"closed before":  {-1, linger},
		"closed later":   {3 * time.Second, 3 * time.Second},
		"remains opened": {time.Hour, linger + longestWrite},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLogFile(t)
				f, err := os.Open(l.path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if tc.closed < 0 {
					l.end()
				} else {
					defer time.AfterFunc(tc.closed, l.end).Stop()
				}
				s, begun := &stream{f: f, src: Source{Last: make(chan struct{})}}, time.Now()
				for !s.last {
					if err := s.awaitLast(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(begun); took < tc.want || took > tc.want+lookUnwatched {
					t.Errorf("complete after %v, want %v", took, tc.want)
				}
			})
		})
	}
}

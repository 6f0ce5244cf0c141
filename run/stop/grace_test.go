package stop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestGraceEnd checks what remains of a grace period after its preStop hook and after other commands
// have shortened it, and how long the runtime then waits between TERM and KILL.
func TestGraceEnd(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		grace     time.Duration
		do        func(g *graceEnd)
		left      time.Duration
		afterTERM time.Duration
	}{
		"at the beginning":               {20 * s, func(*graceEnd) {}, 20 * s, 20 * s},
		"after a preStop hook":           {20 * s, func(*graceEnd) { time.Sleep(5 * s) }, 15 * s, 15 * s},
		"the hook has used it up":        {20 * s, func(*graceEnd) { time.Sleep(20 * s) }, 0, 2 * s},
		"shorter than the minimum":       {s, func(*graceEnd) { time.Sleep(s) }, 0, s},
		"no grace":                       {0, func(*graceEnd) {}, 0, 0},
		"stopped before":                 {20 * s, func(g *graceEnd) { time.Sleep(19 * s); g.noMinimum() }, s, s},
		"stopped before, long ago":       {20 * s, func(g *graceEnd) { time.Sleep(30 * s); g.noMinimum() }, 0, 0},
		"shortened":                      {20 * s, func(g *graceEnd) { g.shorten(time.Now().Add(7 * s)) }, 7 * s, 7 * s},
		"shortened to less than minimum": {20 * s, func(g *graceEnd) { g.shorten(time.Now().Add(s)); time.Sleep(s) }, 0, s},
		"shortened to the past":          {20 * s, func(g *graceEnd) { g.shorten(time.Now().Add(-s)) }, 0, 0},
		"longer is ignored":              {20 * s, func(g *graceEnd) { g.shorten(time.Now().Add(30 * s)) }, 20 * s, 20 * s},
		"the same is ignored":            {20 * s, func(g *graceEnd) { g.shorten(time.Now().Add(20*s - sameEnd/2)) }, 20 * s, 20 * s},
		"a known end is ignored": {20 * s, func(g *graceEnd) {
			end := time.Now().Add(19 * s)
			g.shorten(end)
			g.shorten(time.Now().Add(9 * s))
			g.shorten(time.Now().Add(9 * s))
			time.Sleep(s)
		}, 8 * s, 8 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGraceEnd(tc.grace)
			tc.do(g)
			if left, _ := g.left(); left != tc.left {
				t.Errorf("%s: %s are left, want %s", name, left, tc.left)
			}
			if got := g.afterTERM(); got != tc.afterTERM {
				t.Errorf("%s: %s after TERM, want %s", name, got, tc.afterTERM)
			}
		})
	}
}

// TestGraceEndOfContexts checks when the contexts of a hook and of a stop end if the period is shortened
// meanwhile.
func TestGraceEndOfContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		g := newGraceEnd(20 * time.Second)
		hook, cancelHook := g.bound(t.Context())
		defer cancelHook()
		stop, cancelStop := g.untilShorter(t.Context())
		defer cancelStop()
		time.AfterFunc(3*time.Second, func() { g.shorten(time.Now().Add(4 * time.Second)) })
		<-stop.Done()
		if got := time.Since(begun); got != 3*time.Second || hook.Err() != nil {
			t.Errorf("the stop ended after %s; hook: %v", got, hook.Err())
		}
		<-hook.Done()
		if got := time.Since(begun); got != 7*time.Second || !errors.Is(context.Cause(hook), context.DeadlineExceeded) {
			t.Errorf("the hook ended after %s: %v", got, context.Cause(hook))
		}
	})
}

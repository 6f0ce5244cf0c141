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
	keep := func(*graceEnd) {}
	in := func(ends ...time.Duration) func(*graceEnd) {
		return func(g *graceEnd) {
			for _, end := range ends {
				g.shorten(time.Now().Add(end))
			}
		}
	}
	for name, tc := range map[string]struct {
		grace           time.Duration
		shorten         func(g *graceEnd)
		pass            time.Duration // time that then passes
		stopped         bool          // the container was asked to stop before
		left, afterTERM time.Duration
	}{
		"at the beginning":               {grace: 20 * s, shorten: keep, left: 20 * s, afterTERM: 20 * s},
		"after a preStop hook":           {grace: 20 * s, shorten: keep, pass: 5 * s, left: 15 * s, afterTERM: 15 * s},
		"the hook has used it up":        {grace: 20 * s, shorten: keep, pass: 20 * s, left: 0, afterTERM: 2 * s},
		"shorter than the minimum":       {grace: s, shorten: keep, pass: s, left: 0, afterTERM: s},
		"no grace":                       {grace: 0, shorten: keep, left: 0, afterTERM: 0},
		"stopped before":                 {grace: 20 * s, shorten: keep, pass: 19 * s, stopped: true, left: s, afterTERM: s},
		"stopped before, long ago":       {grace: 20 * s, shorten: keep, pass: 30 * s, stopped: true, left: 0, afterTERM: 0},
		"shortened":                      {grace: 20 * s, shorten: in(7 * s), left: 7 * s, afterTERM: 7 * s},
		"shortened to less than minimum": {grace: 20 * s, shorten: in(s), pass: s, left: 0, afterTERM: s},
		"shortened to the past":          {grace: 20 * s, shorten: in(-s), left: 0, afterTERM: 0},
		"shortened twice":                {grace: 20 * s, shorten: in(19*s, 9*s), pass: s, left: 8 * s, afterTERM: 8 * s},
		"longer is ignored":              {grace: 20 * s, shorten: in(30 * s), left: 20 * s, afterTERM: 20 * s},
		"the same is ignored":            {grace: 20 * s, shorten: in(20*s - sameEnd/2), left: 20 * s, afterTERM: 20 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGraceEnd(tc.grace)
			tc.shorten(g)
			time.Sleep(tc.pass)
			if tc.stopped {
				g.noMinimum()
			}
			if left, _ := g.left(); left != tc.left {
				t.Errorf("%s: %s are left, want %s", name, left, tc.left)
			}
			if got := g.afterTERM(); got != tc.afterTERM {
				t.Errorf("%s: %s after TERM, want %s", name, got, tc.afterTERM)
			}
		})
	}
}

// TestGraceEndOfContexts checks when the contexts of a hook and of a stop end if another command
// shortens the period.
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

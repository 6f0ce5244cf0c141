package jobs

import (
	"testing"
	"time"
)

// On an old kernel, Run can miss the change of a record: it must then notice the change at the next
// decision, which is at most recheck later.
func TestDecisionsAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 27, 1, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ next, want time.Time }{
		"no further decision is known": {time.Time{}, now.Add(recheck)},
		"in an hour":                   {now.Add(time.Hour), now.Add(recheck)},
		"in a second":                  {now.Add(time.Second), now.Add(time.Second)},
		"already due":                  {now.Add(-time.Second), now.Add(-time.Second)},
	} {
		if got := bounded(tc.next, now); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

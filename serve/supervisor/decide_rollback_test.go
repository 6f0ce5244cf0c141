package supervisor

import (
	"testing"
	"time"
)

// TestDecideRollbackProperties checks the properties of rollbacks in every situation, including situations that cannot occur.
func TestDecideRollbackProperties(t *testing.T) {
	failures := 0
	n := situations(func(s Situation) {
		if s.Failed == "h0" || s.RetryDelete.Equal(since) {
			return // as if nothing had failed
		}
		plain := Decide(s)
		for i := range 8 {
			s.RollingBack, s.Rejected, s.Behind = i&1 == 1, i&2 == 2 && s.Source == Present, i&4 == 4
			for _, retry := range []time.Time{{}, later} {
				s.RetryRollBack = retry
				d := Decide(s)
				check := func(holds bool, what string) {
					if !holds && failures < 20 {
						failures++
						t.Errorf("%s: %+v leads to %+v", what, s, d)
					}
				}
				check(!s.Rejected || d.Do != Apply, "a rejected definition is not applied")
				check(d.Do != RollBack || s.exists() && (s.RollingBack || s.Rejected), "only a pod with a bad update, or a rejected one, is rolled back")
				check(d.Do != RollBack || !s.Owned && !s.Doomed && !s.Surplus && s.Halt == HaltNone && s.Origin != OriginRun && s.Source != Gone,
					"a pod that is stopped, removed or belongs to another command is not rolled back")
				check(d.Do != RollBack || !s.Now.Before(s.RetryRollBack), "a rollback is not repeated before its time")
				check(d.Do != RollBack || !s.changed() || s.applyHeld() || s.Behind || s.Checkpoint == CheckpointCorrupt || s.Phase == PhaseEvicted, "a definition that can be applied has precedence")
				check(plain.Do != Delete && plain.Do != Release && plain.Do != Evict && plain.Do != Forget || d == plain, "removals and evictions do not depend on updates")
				check(d.Until.IsZero() || d.Until.After(s.Now), "nothing is waited for that has passed")
				check(!s.Behind || d.Do != Apply || !s.exists() || s.Checkpoint == CheckpointCorrupt || s.Phase == PhaseEvicted, "a replica whose turn has not come is not updated")
				held := s.exists() && s.RollingBack && !s.Owned && s.Halt == HaltNone && d.Do == Attend && s.Now.Before(s.RetryRollBack)
				check(!held || !d.Until.IsZero(), "a rollback that failed is repeated")
				if i == 0 {
					check(d == plain, "without an update, nothing changes")
				}
			}
		}
	})
	t.Logf("%d situations", n)
}

package update

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// rollbackModel is the expected state of the pod web, whose file a test changes at random. A version is in an argument of the
// container.
type rollbackModel struct {
	good, bad string // the last good version, and the version of the file if it was rolled back
	versions  int
}

// change returns a new definition, and whether it is good.
func (m *rollbackModel) change(r *rand.Rand) (text string, good bool) {
	m.versions++
	container := fmt.Sprintf("image: registry.example/app:%d, args: [v%d]", 1+r.IntN(2), m.versions)
	switch r.IntN(6) {
	case 0:
		container += ", " + neverReady
	case 1:
		container += ", lifecycle: {postStart: {exec: {command: [sh, -c, exit 1]}}}"
	case 2: // ready after 90 s, so within the deadline
		return watchedPod("web", container+", readinessProbe: {exec: {command: [slow]}, initialDelaySeconds: 90, periodSeconds: 5}"), true
	case 3: // a startup probe that takes longer than the deadline
		return watchedPod("web", container+", startupProbe: {exec: {command: [slow]}, initialDelaySeconds: 200, periodSeconds: 10, failureThreshold: 100}"), true
	default:
		return watchedPod("web", container), true
	}
	return watchedPod("web", container), false
}

// TestRollbackModel simulates days with good and bad updates, restarts of serve and of the runtime, a stopped pod, and changes
// in quick succession. After each step, the pod runs the newest good definition, or the last good one.
func TestRollbackModel(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) { simulateRollbacks(s, rand.New(rand.NewPCG(seed, seed)), 24) })
		})
	}
}

func simulateRollbacks(s *rig.Supervised, r *rand.Rand, steps int) {
	t := s.T
	s.Runtime.ScriptExec("web", func(cmd []string) *critest.Exec {
		if cmd[0] == "slow" {
			return &critest.Exec{}
		}
		return nil
	})
	m := &rollbackModel{good: "v0"}
	s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:1, args: [v0]"))
	time.Sleep(time.Minute)
	rollbacks := 0
	for step := range steps {
		what := ""
		disturb := r.IntN(6)
		if disturb == 0 { // two changes in quick succession
			first, _ := m.change(r)
			s.Files.Write(rig.File("web"), first)
			time.Sleep(time.Duration(r.IntN(8)) * time.Second) // shorter than the time after which a definition is good
		}
		text, good := m.change(r)
		version := fmt.Sprint("v", m.versions)
		s.Files.Write(rig.File("web"), text)
		switch disturb {
		case 1, 2: // at a random time during the update or the rollback
			for range 1 + r.IntN(3) {
				time.Sleep(time.Duration(r.IntN(150)) * time.Second)
				s.Restart()
			}
			what = ", serve restarted"
		case 3:
			time.Sleep(time.Duration(r.IntN(60)) * time.Second)
			s.Runtime.Restart()
			what = ", the runtime restarted"
		case 4:
			time.Sleep(time.Duration(r.IntN(60)) * time.Second)
			for _, result := range run.StopPods(t.Context(), s.Engine(), s.Known(), run.DeleteOptions{}) {
				s.Must(nil, result.Err)
			}
			time.Sleep(time.Hour)
			if _, err := run.StartPods(t.Context(), s.Engine(), s.Known(), run.ApplyOptions{AllowKubelet: true}); err != nil {
				t.Fatal(err)
			}
			what = ", stopped and started"
		}
		time.Sleep(12 * time.Minute)
		want, state := version, store.UpdateGood
		if good {
			m.good, m.bad = version, ""
		} else {
			want, state, m.bad = m.good, store.UpdateRolledBack, version
			rollbacks++
		}
		if c := s.Running("web"); !slices.Equal(c.Config.GetArgs(), []string{want}) {
			t.Fatalf("step %d%s: %q runs, want %s (good %t); %+v; %s", step, what, c.Config.GetArgs(), want, good, update(s, "web"), text)
		}
		if u := update(s, "web"); u.State != state || (u.Rejected != nil) != !good {
			t.Fatalf("step %d%s: state %+v, want %s; %s", step, what, u, state, text)
		}
		if c := pending(s, "web"); (c != nil) != !good || c != nil && (c.Reason != "RolledBack" || strings.Contains(c.Message, "next attempt")) {
			t.Fatalf("step %d%s: condition %+v", step, what, c)
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Minute)
	}
	if n := rolledBack(s); n < rollbacks {
		t.Errorf("%d events, want at least %d", n, rollbacks)
	}
	t.Logf("%d updates, %d rolled back", m.versions, rollbacks)
}

package probe

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLivenessFailureKillsAtItsThreshold(t *testing.T) {
	w := &world{exits: func(string, float64) int32 { return 1 }}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		plan := execPlan(Liveness, 5, 10, 1, 3)
		plan.GraceSeconds = ptr(int64(7))
		p.Set(w.container(plan))
		time.Sleep(24 * time.Second)
		if r := p.Results(); len(r.Kill) != 0 || !r.Ready["c1"] || !r.Started["c1"] {
			t.Errorf("before the third failure: %+v", r)
		}
		time.Sleep(10 * time.Minute)
		want := Results{Started: map[string]bool{"c1": true}, Ready: map[string]bool{"c1": true},
			Kill: map[string]Kill{"c1": {Liveness, "Container app failed liveness probe", ptr(int64(7))}}}
		if diff := cmp.Diff(want, p.Results()); diff != "" {
			t.Error(diff)
		}
		p.Set(nil)
		if r := p.Results(); len(r.Kill)+len(r.Ready)+len(r.Started) != 0 {
			t.Errorf("results of a removed container: %+v", r)
		}
	})
	const unhealthy = "Warning Unhealthy spec.containers{app}: Liveness probe failed: says liveness"
	w.want(t, "5 c1: liveness", "5 "+unhealthy, "15 c1: liveness", "15 "+unhealthy, "25 c1: liveness", "25 "+unhealthy,
		"25 c1 Liveness false Container app failed liveness probe")
}

func TestReadinessGoesUpAndDown(t *testing.T) {
	// The container is ready from 20 s to 60 s, and again from 100 s on.
	w := &world{exits: func(_ string, s float64) int32 {
		if s < 20 || (s >= 60 && s < 100) {
			return 1
		}
		return 0
	}}
	var ready []string
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set(w.container(execPlan(Readiness, 0, 10, 2, 3)))
		for range 601 {
			synctest.Wait()
			word := fmt.Sprint(p.Results().Ready["c1"])
			if n := len(ready); n == 0 || !strings.HasSuffix(ready[n-1], word) {
				ready = append(ready, fmt.Sprintf("%g %s", w.second(), word))
			}
			time.Sleep(time.Second)
		}
	})
	if diff := cmp.Diff([]string{"0 false", "30 true", "80 false", "110 true"}, ready); diff != "" {
		t.Error(diff)
	}
	if got := w.runs("c1 Readiness true ") + "|" + w.runs("c1 Readiness false says readiness"); got != "30 110|80" {
		t.Errorf("reported at %s", got)
	}
	if got := strings.Count(w.runs("c1: readiness"), " "); got != 60 {
		t.Errorf("%d probes in 600 s, want one immediately and one every 10 s", got+1)
	}
}

func TestStartupHoldsTheOthersBack(t *testing.T) {
	w := &world{exits: func(command string, s float64) int32 {
		if command == "startup" && s < 25 {
			return 1
		}
		return 0
	}}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set(w.container(execPlan(Startup, 0, 10, 1, 30), execPlan(Readiness, 0, 7, 1, 3), execPlan(Liveness, 45, 20, 1, 3)))
		time.Sleep(29 * time.Second)
		if r := p.Results(); r.Started["c1"] || r.Ready["c1"] {
			t.Errorf("before startup: %+v", r)
		}
		time.Sleep(31 * time.Second)
		if r := p.Results(); !r.Started["c1"] || !r.Ready["c1"] {
			t.Errorf("after startup: %+v", r)
		}
	})
	for line, want := range map[string]string{
		"c1: startup": "0 10 20 30", "c1: readiness": "30 37 44 51 58", "c1: liveness": "45",
		"c1 Startup true ": "30", "c1 Readiness true ": "30",
	} {
		if got := w.runs(line); got != want {
			t.Errorf("%s at %s, want %s", line, got, want)
		}
	}
}

func TestStartupFailureKills(t *testing.T) {
	w := &world{exits: func(string, float64) int32 { return 1 }}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		c := w.container(execPlan(Startup, 0, 5, 1, 2), execPlan(Liveness, 0, 5, 1, 1))
		c[0].Init = true
		p.Set(c)
		time.Sleep(time.Minute)
		r := p.Results()
		if got := r.Kill["c1"]; got.Kind != Startup || got.Message != "Init container app failed startup probe" || got.GraceSeconds != nil || r.Started["c1"] {
			t.Errorf("%+v", r)
		}
	})
	const unhealthy = "Warning Unhealthy spec.initContainers{app}: Startup probe failed: says startup"
	w.want(t, "0 c1: startup", "0 "+unhealthy, "5 c1: startup", "5 "+unhealthy, "5 c1 Startup false Init container app failed startup probe")
}

// TestReplacedContainerHasNewState covers https://github.com/kubernetes/kubernetes/issues/53530.
func TestReplacedContainerHasNewState(t *testing.T) {
	w := &world{exits: func(string, float64) int32 { return 1 }}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		plan := execPlan(Liveness, 0, 10, 1, 3)
		p.Set(w.container(plan))
		// After two failures, the container crashes.
		time.Sleep(15 * time.Second)
		p.Set([]Container{{ID: "c2", StartedAt: time.Now(), Plans: []Plan{plan}}})
		time.Sleep(time.Minute)
		if r := p.Results(); len(r.Kill) != 1 || r.Kill["c2"].Kind != Liveness {
			t.Errorf("%+v", r)
		}
	})
	if got := w.runs("c1: liveness") + "|" + w.runs("c2: liveness"); got != "0 10|15 25 35" {
		t.Errorf("probed at %s", got)
	}
}

func TestSetKeepsWhatGoesOn(t *testing.T) {
	w := &world{}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		c := w.container(execPlan(Readiness, 0, 10, 1, 3))
		for range 39 {
			p.Set(c)
			time.Sleep(time.Second)
		}
	})
	if got := w.runs("c1: readiness"); got != "0 10 20 30" {
		t.Errorf("probed at %s", got)
	}
}

func TestSlowProbes(t *testing.T) {
	w := &world{takes: map[string]time.Duration{"readiness": 25 * time.Second}}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set(w.container(execPlan(Readiness, 0, 10, 1, 3)))
		time.Sleep(99 * time.Second)
	})
	// The next probe must follow immediately after a probe that took longer than its period, as
	// with a ticker that keeps one tick.
	if got := w.runs("c1: readiness"); got != "0 25 50 75" {
		t.Errorf("probed at %s", got)
	}
	if got := w.runs("c1: readiness canceled"); got != "99" {
		t.Errorf("the probe in flight was canceled at %s", got)
	}
}

// TestProbesInFlightOfAContainerThatIsGone checks that podrun cancels the running probe of a container that no
// longer exists, and does not report its result.
func TestProbesInFlightOfAContainerThatIsGone(t *testing.T) {
	w := &world{takes: map[string]time.Duration{"liveness": time.Minute}, exits: func(string, float64) int32 { return 1 }}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set(w.container(execPlan(Liveness, 0, 10, 1, 1)))
		time.Sleep(5 * time.Second)
		p.Set(nil)
		time.Sleep(10 * time.Minute)
	})
	w.want(t, "0 c1: liveness", "5 c1: liveness canceled")
}

func TestErrorsNeverKill(t *testing.T) {
	w := &world{exits: func(string, float64) int32 { return -1 }}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set(w.container(execPlan(Liveness, 0, 100, 1, 1)))
		time.Sleep(150 * time.Second)
		if r := p.Results(); len(r.Kill) != 0 {
			t.Errorf("%+v", r)
		}
	})
	const errored = "Warning Unhealthy spec.containers{app}: Liveness probe errored and resulted in unknown state: no way"
	w.want(t, "0 c1: liveness", "0 c1: liveness", "0 c1: liveness", "0 "+errored,
		"100 c1: liveness", "100 c1: liveness", "100 c1: liveness", "100 "+errored)
}

func TestAnOldContainerIsProbedAtOnce(t *testing.T) {
	w := &world{}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set([]Container{
			{ID: "old", StartedAt: w.start.Add(-time.Hour), Plans: []Plan{execPlan(Readiness, 30, 300, 1, 3)}},
			{ID: "future", StartedAt: w.start.Add(24 * time.Hour), Plans: []Plan{execPlan(Readiness, 30, 300, 1, 3)}},
		})
		time.Sleep(time.Minute)
	})
	if got := w.runs("old: readiness") + "|" + w.runs("future: readiness"); got != "0|30" {
		t.Errorf("probed at %s", got)
	}
}

func TestSettle(t *testing.T) {
	w := &world{}
	synctest.Test(t, func(t *testing.T) {
		w.start = time.Now()
		p := NewProber(Options{Exec: w.exec, Settle: time.Second})
		p.Set([]Container{
			{ID: "new", StartedAt: w.start, Plans: []Plan{execPlan(Readiness, 0, 10, 1, 3)}},
			{ID: "late", StartedAt: w.start, Plans: []Plan{execPlan(Readiness, 3, 10, 1, 3)}},
			{ID: "old", StartedAt: w.start.Add(-time.Hour), Plans: []Plan{execPlan(Readiness, 0, 10, 1, 3)}},
		})
		time.Sleep(12 * time.Second)
		p.Stop()
	})
	for id, want := range map[string]string{"new": "1 11", "late": "3", "old": "0 10"} {
		if got := w.runs(id + ": readiness"); got != want {
			t.Errorf("%s is probed at %s, want %s", id, got, want)
		}
	}
}

// TestProbesAfterASuccess checks that probes run at whole seconds after a success, and at their exact times
// before and after a failure.
func TestProbesAfterASuccess(t *testing.T) {
	w := &world{exits: func(command string, s float64) int32 {
		if command == "liveness" && s > 5 || command == "startup" && s < 15 {
			return 1
		}
		return 0
	}}
	synctest.Test(t, func(t *testing.T) {
		w.start = time.Now()
		p := NewProber(Options{Exec: w.exec})
		time.Sleep(300 * time.Millisecond)
		p.Set([]Container{
			{ID: "ready", StartedAt: time.Now(), Plans: []Plan{execPlan(Readiness, 0, 10, 1, 3)}},
			{ID: "fails", StartedAt: time.Now(), Plans: []Plan{execPlan(Liveness, 0, 10, 1, 3)}},
			{ID: "starts", StartedAt: time.Now(), Plans: []Plan{execPlan(Startup, 0, 10, 1, 3)}},
		})
		time.Sleep(40 * time.Second)
		p.Stop()
	})
	for line, want := range map[string]string{
		"ready: readiness": "0.3 11 21 31",
		"fails: liveness":  "0.3 11 20.3 30.3",
		"starts: startup":  "0.3 10.3 20.3",
	} {
		if got := w.runs(line); got != want {
			t.Errorf("%s is probed at %s, want %s", line, got, want)
		}
	}
}

func TestProbesAtATime(t *testing.T) {
	w := &world{takes: map[string]time.Duration{"readiness": time.Second}}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		var all []Container
		for i := range 3 * parallel {
			all = append(all, Container{ID: fmt.Sprint(i), StartedAt: w.start, Plans: []Plan{execPlan(Readiness, 0, 100, 1, 3)}})
		}
		p.Set(all)
		time.Sleep(3500 * time.Millisecond)
		for id, ready := range p.Results().Ready {
			if !ready {
				t.Errorf("%s was not probed in 3 s", id)
			}
		}
	})
	if w.most != parallel {
		t.Errorf("%d at a time, want %d", w.most, parallel)
	}
}

func TestStop(t *testing.T) {
	w := &world{takes: map[string]time.Duration{"liveness": time.Hour}}
	inWorld(t, w, func(t *testing.T, p *Prober) {
		p.Set(w.container(execPlan(Readiness, 0, 10, 1, 3), execPlan(Liveness, 0, 10, 1, 1), execPlan(Startup, 0, 10, 1, 1)))
		time.Sleep(5 * time.Second)
		p.Stop()
		if w.running != 0 {
			t.Errorf("%d commands are still running", w.running)
		}
		if r := p.Results(); !r.Ready["c1"] {
			t.Errorf("results are lost: %+v", r)
		}
		p.Set([]Container{{ID: "c2", Plans: []Plan{execPlan(Readiness, 0, 10, 1, 3)}}})
		time.Sleep(time.Minute)
	})
	if got := w.runs("c1: readiness") + "|" + w.runs("c2: readiness") + "|" + w.runs("c1: liveness canceled"); got != "0||5" {
		t.Errorf("probed at %s", got)
	}
}

func TestWithoutListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{start: time.Now(), exits: func(string, float64) int32 { return 1 }}
		p := NewProber(Options{Exec: w.exec})
		p.Set(append(w.container(execPlan(Liveness, 0, 1, 1, 1)), Container{ID: "bare"}))
		time.Sleep(time.Second)
		p.Stop()
		if r := p.Results(); len(r.Kill) != 1 || !r.Ready["bare"] || !r.Started["bare"] {
			t.Errorf("%+v", r)
		}
	})
}

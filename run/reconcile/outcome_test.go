package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// TestOutcome checks the outcome of an apply that has reached its goal, and the details that its report shows.
func TestOutcome(t *testing.T) {
	changes := []string{"spec.containers[0].image"}
	for name, tc := range map[string]struct {
		change        prepare.Change
		forced, acted bool
		want          Outcome
		what          []string
	}{
		"new":                  {prepare.ChangeNew, false, true, OutcomeCreated, nil},
		"unchanged":            {prepare.ChangeUnchanged, false, false, OutcomeUnchanged, nil},
		"unchanged, repaired":  {prepare.ChangeUnchanged, false, true, OutcomeRestarted, []string{"app"}},
		"updated":              {prepare.ChangeUpdate, false, true, OutcomeUpdated, changes},
		"replaced":             {prepare.ChangeReplace, false, true, OutcomeReplaced, changes},
		"replaced, by a force": {prepare.ChangeReplace, true, true, OutcomeRestarted, []string{"app"}},
	} {
		l := workOn(policy{}, map[string]int{"db": 0, "app": 0})
		l.acted = tc.acted
		l.mine["app"] = tc.acted
		a := &applying{pod: l.pod, lease: l.lease, loop: l}
		target := prepare.Target{Change: tc.change, Forced: tc.forced, Changes: changes}
		got := a.outcome(target)
		if what := a.what(target, got); got != tc.want || !slices.Equal(what, tc.what) {
			t.Errorf("%s: %s %q, want %s %q", name, got, what, tc.want, tc.what)
		}
	}
}

// TestEndedBefore checks the result for a pod that ended before it reached its goal.
func TestEndedBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		containers map[string]int
		want       Outcome
		err        string
	}{
		"succeeded": {map[string]int{"db": 1, "app": 1}, OutcomeUnchanged, ""},
		"failed":    {map[string]int{"db": 1, "app": 5}, OutcomeFailed, "pod default/web: failed: container app exited with 4 (Error)"},
	} {
		l := workOn(policy{}, tc.containers)
		got, err := (&applying{pod: l.pod, lease: l.lease, loop: l}).endedBefore(OutcomeUnchanged)
		e, _ := errors.AsType[*problem.Error](err)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && (err.Error() != tc.err || e.Kind != problem.Failed) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// TestMayUndo checks when a command may remove what it has created: it must never remove a pod that another
// command has taken over and whose containers have started.
func TestMayUndo(t *testing.T) {
	mine, other := store.Generation{Counter: 1, Token: "mine"}, store.Generation{Counter: 2, Token: "other"}
	for name, tc := range map[string]struct {
		incarnation string
		record      *store.OwnerRecord
		steps       bool // there are undo steps
		want        bool
	}{
		"no owner":                          {"i", nil, true, false},
		"never owned":                       {"", &store.OwnerRecord{Generation: mine, Fresh: true}, true, false},
		"another incarnation":               {"i", &store.OwnerRecord{Generation: mine, Incarnation: "j", Fresh: true}, true, false},
		"its own, fresh":                    {"i", &store.OwnerRecord{Generation: mine, Incarnation: "i", Fresh: true}, false, true},
		"its own, started, with steps":      {"i", &store.OwnerRecord{Generation: mine, Incarnation: "i"}, true, true},
		"its own, started, without steps":   {"i", &store.OwnerRecord{Generation: mine, Incarnation: "i"}, false, false},
		"taken over, fresh":                 {"i", &store.OwnerRecord{Generation: other, Incarnation: "i", Fresh: true, Purpose: store.PurposeRun}, true, true},
		"taken over, started":               {"i", &store.OwnerRecord{Generation: other, Incarnation: "i", Purpose: store.PurposeRun}, true, false},
		"taken over by a delete, fresh":     {"i", &store.OwnerRecord{Generation: other, Incarnation: "i", Fresh: true, Purpose: store.PurposeRemove}, true, false},
		"taken over, its removal has begun": {"i", &store.OwnerRecord{Generation: other, Incarnation: "i", Fresh: true, Doomed: true, Purpose: store.PurposeRun}, true, false},
	} {
		l := workOn(policy{}, nil)
		l.lease.Lock = &store.PodLock{Mine: mine, Incarnation: tc.incarnation}
		if tc.steps {
			l.lease.Undo.Push("x", func(context.Context) error { return nil })
		}
		if got := (&applying{pod: l.pod, lease: l.lease, loop: l}).mayUndo(tc.record); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"
)

func report(name string, state types.SpecState, message string) types.SpecReport {
	return types.SpecReport{
		LeafNodeType: types.NodeTypeIt, LeafNodeText: name, ContainerHierarchyTexts: []string{"[sig-node] Area [LinuxOnly]"},
		State: state, Failure: types.Failure{Message: message},
	}
}

// TestCollect checks the outcomes of five specs in two runs, and their lines in the summary.
func TestCollect(t *testing.T) {
	names := []string{"good", "bad", "sometimes", "impossible", "refuses", "late"}
	var plan types.SpecReports
	for _, name := range names {
		plan = append(plan, report(name, types.SpecStatePassed, ""))
	}
	plan = append(plan, report("of another area", types.SpecStateSkipped, ""))
	run := func(good, bad, sometimes types.SpecState) types.SpecReports {
		return types.SpecReports{
			report("good", good, ""), report("bad", bad, "it broke"), report("sometimes", sometimes, "it was slow"),
			report("impossible", types.SpecStateSkipped, ""), report("refuses", types.SpecStateSkipped, "not on Linux"),
			report("late", types.SpecStateSkipped, ""), report("of another area", types.SpecStateSkipped, ""),
		}
	}
	pass, fail := types.SpecStatePassed, types.SpecStateFailed
	specs := collect(plan, []skip{{regexp.MustCompile("imposs"), "no dummy links"}}, []types.SpecReports{
		run(pass, fail, pass), run(pass, types.SpecStatePanicked, fail),
	})
	want := map[string]outcome{"good": passed, "bad": failed, "sometimes": flaky, "impossible": skipped, "refuses": skipped, "late": notRun}
	if len(specs) != len(want) {
		t.Errorf("%d specs, want %d", len(specs), len(want))
	}
	for _, s := range specs {
		name := s.name[strings.LastIndex(s.name, " ")+1:]
		if s.outcome != want[name] {
			t.Errorf("%s: %s, want %s", name, s.outcome, want[name])
		}
		if s.area != "[sig-node] Area" {
			t.Errorf("%s: area %q", name, s.area)
		}
	}
	text := render(specs, 2)
	for _, part := range []string{
		"6 specs, 2 runs: 1 passed, 1 failed, 1 flaky, 2 skipped, 1 not run",
		"bad: after 0 s: it broke", "sometimes: passed in 1 of 2 runs; it was slow", "impossible: no dummy links", "refuses: not on Linux",
		"| [sig-node] Area | 6 | 1 | 1 | 1 | 2 | 1 |",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the summary does not contain %q:\n%s", part, text)
		}
	}
}

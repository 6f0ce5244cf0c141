package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// outcome is the result of a spec over all runs.
type outcome string

const (
	passed  outcome = "passed"  // passed in every run
	failed  outcome = "failed"  // failed in every run
	flaky   outcome = "flaky"   // failed in some runs
	skipped outcome = "skipped" // skipped by the file of skips or by the spec itself
	notRun  outcome = "not run" // no run has reached the spec
)

type spec struct {
	name    string
	area    string // the text of the outermost Ginkgo container
	outcome outcome
	passes  int
	detail  string // the first failure, or the reason why the spec is skipped
	seconds float64
}

// collect returns the outcome of each spec that the dry run selected, sorted by name.
func collect(plan types.SpecReports, skips []skip, runs []types.SpecReports) []*spec {
	byName := map[string]*spec{}
	var specs []*spec
	for _, p := range plan {
		if p.State != types.SpecStatePassed || byName[p.FullText()] != nil {
			continue
		}
		s := &spec{name: p.FullText(), area: area(p), outcome: notRun}
		byName[s.name] = s
		specs = append(specs, s)
		for _, skip := range skips {
			if skip.specs.MatchString(s.name) {
				s.outcome, s.detail = skipped, skip.reason
			}
		}
	}
	for _, run := range runs {
		for _, report := range run {
			if s := byName[report.FullText()]; s != nil {
				s.add(report)
			}
		}
	}
	slices.SortFunc(specs, func(a, b *spec) int { return cmp.Compare(a.name, b.name) })
	return specs
}

// add adds the result of one run. A skipped spec without a message is one that ginkgo did not
// select.
func (s *spec) add(report types.SpecReport) {
	state := report.State
	switch {
	case state == types.SpecStatePassed:
		s.passes++
		s.outcome = merge(s.outcome, passed)
	case state.Is(types.SpecStateSkipped | types.SpecStatePending):
		if report.Failure.Message != "" {
			s.outcome, s.detail = skipped, report.Failure.Message
		}
		return
	default:
		s.outcome = merge(s.outcome, failed)
		if s.detail == "" {
			s.detail = report.Failure.Message
		}
	}
	s.seconds = max(s.seconds, report.RunTime.Seconds())
}

func merge(before, now outcome) outcome {
	if before == notRun || before == now {
		return now
	}
	return flaky
}

func area(report types.SpecReport) string {
	for _, text := range report.ContainerHierarchyTexts {
		if text = strings.TrimSpace(text); text != "" {
			name, _, _ := strings.Cut(text, " [")
			return name
		}
	}
	return "other"
}

func count(specs []*spec, o outcome) int {
	n := 0
	for _, s := range specs {
		if s.outcome == o {
			n++
		}
	}
	return n
}

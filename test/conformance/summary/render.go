package main

import (
	"fmt"
	"slices"
	"strings"
)

var outcomes = []outcome{passed, failed, flaky, skipped, notRun}

// render returns the summary: the figures, the specs that did not pass, the figures by area.
func render(specs []*spec, runs int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d specs, %d runs: %s\n", len(specs), runs, figures(specs))
	for _, o := range outcomes[1:] {
		if count(specs, o) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", strings.ToUpper(string(o[:1]))+string(o[1:]))
		for _, s := range specs {
			if s.outcome == o {
				b.WriteString(line(s, runs))
			}
		}
	}
	b.WriteString("\n## By area\n\n| area | specs | passed | failed | flaky | skipped | not run |\n|---|---|---|---|---|---|---|\n")
	areas := map[string][]*spec{}
	var names []string
	for _, s := range specs {
		if areas[s.area] == nil {
			names = append(names, s.area)
		}
		areas[s.area] = append(areas[s.area], s)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "| %s | %d |", name, len(areas[name]))
		for _, o := range outcomes {
			fmt.Fprintf(&b, " %d |", count(areas[name], o))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func figures(specs []*spec) string {
	var parts []string
	for _, o := range outcomes {
		if n := count(specs, o); n > 0 || o == passed || o == failed {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}

// line describes a spec that did not pass in every run.
func line(s *spec, runs int) string {
	detail := strings.Join(strings.Fields(s.detail), " ")
	if runes := []rune(detail); len(runes) > 400 {
		detail = string(runes[:400]) + "…"
	}
	switch {
	case s.outcome == flaky:
		detail = fmt.Sprintf("passed in %d of %d runs; %s", s.passes, runs, detail)
	case s.outcome == failed:
		detail = fmt.Sprintf("after %.0f s: %s", s.seconds, detail)
	}
	return fmt.Sprintf("- %s: %s\n", s.name, detail)
}

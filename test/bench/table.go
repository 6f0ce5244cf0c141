package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/podrun/podrun/test/bench/result"
)

// table prints each row when it is measured, so the columns have fixed widths.
type table struct{ w io.Writer }

const rowFormat = "%-56s %10s  %-24s %6s  %-10s %-5s %s\n"

// newTable prints the header. With -json, it prints nothing, because the bench prints the numbers
// at the end.
func newTable(w io.Writer, o options) table {
	if o.json {
		return table{io.Discard}
	}
	fmt.Fprintf(w, rowFormat, fmt.Sprintf("%d processors", runtime.NumCPU()), "figure", "min / median / p95", "rounds", "goal", "", "time, page faults, new processes and threads")
	return table{w}
}

func (t table) print(rows []result.Row) {
	for _, r := range rows {
		m := result.Find(r.Name, r.Unit)
		mark := ""
		if m.HasGoal() {
			mark = "pass"
			if r.Median > m.Goal {
				mark = "FAIL"
			}
		}
		spread, rounds, all := "", "", ""
		if r.Rounds > 1 {
			spread, rounds = m.Spread(r.Statistic), fmt.Sprint(r.Rounds)
		}
		for _, p := range r.Programs {
			all += fmt.Sprintf("%s %.0f ms %.0f %.0f; ", p.Name, p.Time.Median, p.Faults, p.Forks)
		}
		fmt.Fprintf(t.w, rowFormat, r.Name, m.Show(r.Median), spread, rounds, m.ShowGoal(), mark, all)
		if r.Old != nil {
			ratio := result.Find("", result.Ratio)
			fmt.Fprintf(t.w, "  new: %s; old: %s; new to old: %s: %s\n", interval(m, r.Statistic), interval(m, r.Old.Statistic), interval(ratio, r.Old.Change), r.Old.Verdict)
		}
	}
}

// interval formats a median and its confidence interval.
func interval(m result.Measure, s result.Statistic) string {
	return fmt.Sprintf("%s (%.*f to %.*f)", m.Show(s.Median), m.Digits, s.Low, m.Digits, s.High)
}

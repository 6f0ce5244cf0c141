package main

import (
	"fmt"
	"io"
	"runtime"
)

// row is a line of the table.
type row struct {
	name, ours, theirs, spread string
	rounds                     int // 0 if the number of rounds does not apply
	// target is the maximum value that passes, or 0 if there is no target
	value, target float64
	format        string // format of value and target
}

// table prints each row when it is measured, so the columns have fixed widths.
type table struct{ w io.Writer }

const rowFormat = "%-66s %10s %10s %6s  %-22s %-9s %s\n"

// newTable prints the header. With -json, it prints nothing, because the bench prints the numbers
// at the end.
func newTable(w io.Writer, o options) table {
	if o.json {
		return table{io.Discard}
	}
	fmt.Fprintf(w, rowFormat, fmt.Sprintf("%d processors", runtime.NumCPU()), "podrun", "bare", "rounds", "min / median / p95", "target", "")
	return table{w}
}

func (t table) print(rows []row) {
	for _, r := range rows {
		want, mark, rounds := "-", "", ""
		if r.target > 0 {
			want, mark = "<= "+fmt.Sprintf(r.format, r.target), "pass"
			if r.value > r.target {
				mark = "FAIL"
			}
		}
		if r.rounds > 0 {
			rounds = fmt.Sprint(r.rounds)
		}
		fmt.Fprintf(t.w, rowFormat, r.name, r.ours, r.theirs, rounds, r.spread, want, mark)
	}
}

func milliseconds(n numbers) string { return fmt.Sprintf("%.0f ms", n.median()) }

func tenths(n numbers) string { return fmt.Sprintf("%.1f ms", n.median()) }

// three formats the minimum, the median and the 95th percentile.
func three(n numbers, format string) string {
	least, median, p95 := n.spread()
	return fmt.Sprintf(format+" / "+format+" / "+format, least, median, p95)
}

func (n *scenarioNumbers) rows() []row {
	rows := []row{
		{name: "wall, " + n.Name, ours: milliseconds(n.Podrun), theirs: milliseconds(n.Bare), spread: three(n.Ratio, "%.2f"), rounds: len(n.Ratio), value: n.Ratio.median(), target: n.scenario.MaxRatio, format: "%.2f"},
		{name: "own overhead, " + n.Name, ours: tenths(n.Overhead), spread: three(n.Overhead, "%.1f"), rounds: len(n.Overhead), value: n.Overhead.median(), target: n.scenario.MaxOverhead, format: "%.0f ms"},
		{name: "CPU time, " + n.Name, ours: tenths(n.Processor), spread: three(n.Processor, "%.1f"), rounds: len(n.Processor)},
	}
	if len(n.Reaction) > 0 {
		rows = append(rows,
			row{name: "next init container, after the runtime reports the exit", ours: tenths(n.Reaction), spread: three(n.Reaction, "%.1f"), value: n.Reaction.median(), target: maxReaction, format: "%.0f ms"},
			row{name: "next init container, after the exit", ours: tenths(n.ReactionToExit), spread: three(n.ReactionToExit, "%.1f")})
	}
	return rows
}

func (d *difference) row() row {
	if d.ratio {
		return row{name: d.Name, ours: milliseconds(d.Ours), theirs: milliseconds(d.Theirs), spread: three(d.Ratio, "%.2f"), rounds: len(d.Ratio), value: d.Ratio.median(), target: d.target, format: "%.2f"}
	}
	floor := ""
	if len(d.Floor) > 0 {
		floor = milliseconds(d.Floor)
	}
	return row{name: d.Name + ", extra", ours: milliseconds(d.Extra), theirs: floor, spread: three(d.Extra, "%.0f"), rounds: len(d.Extra), value: d.Extra.median(), target: d.target, format: "%.0f ms"}
}

func (n *imageNumbers) rows() []row {
	return []row{
		{name: fmt.Sprintf("pull of %d images, against a bare client", imageCount), ours: milliseconds(n.Podrun), theirs: milliseconds(n.Bare), spread: three(n.Podrun, "%.0f"), rounds: len(n.Podrun), value: n.Podrun.median() / n.Bare.median(), target: maxPulls, format: "%.2f"},
		{name: "the same, against one after the other", ours: milliseconds(n.Podrun), theirs: milliseconds(n.OneByOne), spread: three(n.OneByOne, "%.0f"), rounds: len(n.OneByOne), value: n.Podrun.median() / n.OneByOne.median(), target: maxOneByOne, format: "%.2f"},
		{name: "requests to the registry, image present", ours: fmt.Sprint(n.Warm), value: float64(n.Warm), target: 0.5, format: "%.0f"},
	}
}

// row returns the row with the peak memory. The value is only an upper bound if the bench's own
// peak is as high.
func (p peak) row() row {
	shown := fmt.Sprintf("%.1f MB", p.MB)
	if p.MB <= p.floor {
		shown = "<= " + shown
	}
	return row{name: "peak memory, " + p.Name, ours: shown, value: p.MB, target: p.max, format: "%.0f MB"}
}

func (p processNumbers) rows() []row {
	symbols := ", with symbols"
	if p.Stripped {
		symbols = ", stripped"
	}
	return []row{
		{name: "podrun version --client (a copy of the binary); an empty Go program", ours: tenths(p.Start), theirs: tenths(p.Empty), spread: three(p.Start, "%.1f"), rounds: len(p.Start), value: p.Start.median(), target: maxStart, format: "%.0f ms"},
		{name: "binary" + symbols, ours: fmt.Sprintf("%.1f MB", p.BinaryMB), value: p.BinaryMB, target: maxBinary, format: "%.0f MB"},
	}
}

// growthRows shows the time that other pods on the host add to commands.
func growthRows(all []growth) []row {
	commands := []struct {
		name            string
		of              func(growth) timing
		maxWall, maxOwn float64
	}{
		{"apply", func(g growth) timing { return g.Apply }, maxApplyGrowth, 0},
		{"get NAME", func(g growth) timing { return g.Get }, 0, maxOtherGrowth},
		{"delete NAME", func(g growth) timing { return g.Delete }, 0, maxOtherGrowth},
	}
	var rows []row
	for _, g := range all {
		for _, c := range commands {
			n := c.of(g)
			rows = append(rows,
				row{name: fmt.Sprintf("%s, %d pods on the fake", c.name, g.Pods), ours: tenths(n.Wall), spread: three(n.Wall, "%.1f"), rounds: len(n.Wall)},
				row{name: "… CPU time of podrun", ours: tenths(n.Own), spread: three(n.Own, "%.1f"), rounds: len(n.Own)})
		}
	}
	last := len(all) - 1
	if last <= 0 {
		return rows
	}
	more := float64(all[last].Pods - all[0].Pods)
	each := func(name string, few, many numbers, most float64) {
		per := max(0, 1000*(many.median()-few.median())/more)
		rows = append(rows, row{name: name, ours: fmt.Sprintf("%.1f µs", per), value: per, target: most, format: "%.0f µs"})
	}
	for _, c := range commands {
		a, b := c.of(all[0]), c.of(all[last])
		each("… "+c.name+", for each other pod", a.Wall, b.Wall, c.maxWall)
		each("… "+c.name+", for each other pod, CPU time of podrun", a.Own, b.Own, c.maxOwn)
	}
	return rows
}

package result

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Last is the number of runs that the documentation combines.
const Last = 3

// Combined is a figure of the last runs that measured it.
type Combined struct {
	Row      // the combined statistics
	Runs int // at most Last
}

// CombineLast combines the rows with a name in the last runs that have them. It reports false if no
// run has one.
func CombineLast(all []Result, name string) (Combined, bool) {
	var rows []Row
	for _, i := range lastWith(all, name) {
		rows = append(rows, all[i].Rows[all[i].index(name)])
	}
	if len(rows) == 0 {
		return Combined{}, false
	}
	return Combined{combineRows(rows), len(rows)}, true
}

// lastWith returns the indexes of the last runs that have a row, the newest first.
func lastWith(all []Result, name string) []int {
	var out []int
	for i, r := range slices.Backward(all) {
		if len(out) < Last && r.index(name) >= 0 {
			out = append(out, i)
		}
	}
	return out
}

func (r Result) index(name string) int {
	return slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == name })
}

func combineRows(rows []Row) Row {
	row := Row{Name: rows[0].Name, Unit: rows[0].Unit}
	figures, programs := []Statistic{}, map[string][]Program{}
	for _, r := range rows {
		figures = append(figures, r.Statistic)
		for _, p := range r.Programs {
			programs[p.Name] = append(programs[p.Name], p)
		}
	}
	row.Statistic = Combine(figures)
	for _, p := range rows[0].Programs {
		var times []Statistic
		var faults, forks []float64
		for _, each := range programs[p.Name] {
			times, faults, forks = append(times, each.Time), append(faults, each.Faults), append(forks, each.Forks)
		}
		row.Programs = append(row.Programs, Program{p.Name, Combine(times), Summarize(faults).Median, Summarize(forks).Median})
	}
	return row
}

// Table returns the table of the measures with their goals and figures. If readme is true, it has only
// the measures of README.md, without details.
func Table(all []Result, readme bool) string {
	var b strings.Builder
	b.WriteString("| measure | goal | measured |\n|---|---|---|\n")
	for _, m := range Measures {
		c, ok := CombineLast(all, m.Name)
		// A program that was never measured, such as one that is not installed, has no line.
		if !ok && !m.HasGoal() || readme && !m.Readme {
			continue
		}
		if _, newer := CombineLast(all, newerPeer[m.Name]); readme && newer {
			continue
		}
		figure := "not measured yet"
		if ok {
			figure = m.figure(c, !readme)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", withVersion(m.Text, all, m.Name), m.ShowGoal(), figure)
	}
	b.WriteString("\n" + explanation)
	return b.String()
}

// newerPeer contains, for each measure that README.md shows only if the newer version of its peer was not measured, the
// measure with the newer version.
var newerPeer = map[string]string{"wall, 1 container, against podman kube play": "wall, 1 container, against podman 5 kube play"}

// withVersion replaces "podman 5" in the text of a measure with the version of the last run.
func withVersion(text string, all []Result, name string) string {
	const peer = "podman 5"
	runs := lastWith(all, name)
	if len(runs) == 0 || all[runs[0]].Versions[peer] == "" {
		return text
	}
	return strings.Replace(text, peer, "podman "+all[runs[0]].Versions[peer], 1)
}

// explanation follows the tables of the measures.
const explanation = "Each value is the median of the medians of the last runs, at most three. The range is from the smallest value of these runs to their largest 95th percentile. \"equal\" means that the difference is within the noise: 1 is in the range of the 99 % confidence intervals of the medians.\n"

// figure formats a combined figure, such as "1.11 × (1.02 to 1.34; podrun 148 ms, bare client
// 132 ms)".
func (m Measure) figure(c Combined, programs bool) string {
	text := m.Show(c.Median)
	if m.Unit == Ratio && c.Verdict() == Equal {
		text = "equal: " + text
	}
	var details []string
	if low, high := m.number(c.Min), m.number(c.P95); low != high {
		details = append(details, low+" to "+high)
	}
	if programs {
		var times []string
		for _, p := range c.Programs {
			times = append(times, fmt.Sprintf("%s %.0f ms", p.Name, p.Time.Median))
		}
		if len(times) > 0 {
			details = append(details, strings.Join(times, ", "))
		}
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	return text
}

// CounterTable returns the page faults and the new processes and threads of the whole system, for each
// program of each measure.
func CounterTable(all []Result) string {
	var b strings.Builder
	b.WriteString("| measure | program | page faults | new processes and threads |\n|---|---|---|---|\n")
	for _, m := range Measures {
		c, ok := CombineLast(all, m.Name)
		if !ok {
			continue
		}
		for _, p := range c.Programs {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Name, p.Name, thousands(p.Faults), thousands(p.Forks))
		}
	}
	return b.String()
}

// thousands formats an integer with separators.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// GrowthCommands are measured on one pod, on hosts with other pods; Populations are the numbers of these.
var (
	GrowthCommands = []string{"apply", "get NAME", "delete NAME"}
	Populations    = []int{10, 100, 1_000, 10_000}
)

// GrowthTable returns the durations of commands for each number of other pods.
func GrowthTable(all []Result) string {
	var b strings.Builder
	b.WriteString("| pods |")
	for _, n := range Populations {
		b.WriteString(" " + thousands(float64(n)) + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Populations)) + "\n")
	for _, command := range GrowthCommands {
		b.WriteString("| `" + command + "` |")
		for _, n := range Populations {
			cell := "not measured yet"
			if c, ok := CombineLast(all, GrowthName(command, n)); ok {
				cell = Find(c.Name, c.Unit).figure(c, false)
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// GrowthName returns the name of the row with the duration of a command.
func GrowthName(command string, pods int) string {
	return fmt.Sprintf("%s, %d pods on the fake", command, pods)
}

// The figures of podrun serve with many pods on the embedded runtime. Densities are the numbers of pods.
const (
	DensityBoot   = "start at boot, for each pod"
	DensityCPU    = "CPU time a minute, idle"
	DensityMemory = "private memory, for each pod"
	DensityChange = "from a changed file to the new container"
	DensityCrash  = "from the end of a container's process to the next container"
)

// Densities are the numbers of pods for which make bench-density measures these figures.
var Densities = []int{110, 250, 500}

// DensityName returns the name of the row of a figure.
func DensityName(figure string, pods int) string { return fmt.Sprintf("%s, %d pods", figure, pods) }

// KubeletDensityName returns the name of the row of the same figure of a kubelet.
func KubeletDensityName(figure string, pods int) string {
	return DensityName(figure, pods) + ", kubelet"
}

// DensityTable returns the figures for each number of pods, and those of a kubelet for the least of them.
func DensityTable(all []Result) string {
	var b strings.Builder
	b.WriteString("| pods |")
	for _, n := range Densities {
		fmt.Fprintf(&b, " %d |", n)
	}
	fmt.Fprintf(&b, " %d, kubelet |\n|---|%s\n", Densities[0], strings.Repeat("---|", len(Densities)+1))
	for _, figure := range []string{DensityBoot, DensityCPU, DensityMemory, DensityChange, DensityCrash} {
		b.WriteString("| " + figure + " |")
		names := []string{}
		for _, n := range Densities {
			names = append(names, DensityName(figure, n))
		}
		for _, name := range append(names, KubeletDensityName(figure, Densities[0])) {
			cell := "not measured yet"
			if c, ok := CombineLast(all, name); ok {
				cell = Find(c.Name, c.Unit).figure(c, false)
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// RunTable returns the runs from which the tables were generated, the newest first.
func RunTable(all []Result) string {
	used := map[int]bool{}
	names := []string{}
	for _, m := range Measures {
		names = append(names, m.Name)
	}
	for _, n := range Densities {
		names = append(names, DensityName(DensityBoot, n))
	}
	for _, name := range names {
		for _, i := range lastWith(all, name) {
			used[i] = true
		}
	}
	var b strings.Builder
	b.WriteString("| run | commit | machine | load before it | versions |\n|---|---|---|---|---|\n")
	for i, r := range slices.Backward(all) {
		if !used[i] {
			continue
		}
		versions := []string{"Linux " + r.Kernel}
		for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
			versions = append(versions, name+" "+r.Versions[name])
		}
		fmt.Fprintf(&b, "| `make %s`, %s, %.0f s | %s | %s | %s | %s |\n", r.Target, r.Time.UTC().Format("2006-01-02 15:04"), r.Seconds, r.Commit, r.Machine, r.Load, strings.Join(versions, ", "))
	}
	return b.String()
}

// Replace replaces the part of a document between the lines "<!-- NAME -->" and "<!-- /NAME -->".
func Replace(document, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(document, begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		return "", fmt.Errorf("the lines %q and %q are missing", strings.TrimSpace(begin), end)
	}
	return before + begin + text + end + after, nil
}

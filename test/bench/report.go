package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// numbers are samples: milliseconds, or ratios.
type numbers []float64

func (n *numbers) add(d time.Duration) { *n = append(*n, float64(d.Microseconds())/1000) }

// spread returns the minimum, the median and the 95th percentile; zeros without samples.
func (n numbers) spread() (least, median, p95 float64) {
	if len(n) == 0 {
		return 0, 0, 0
	}
	s := slices.Sorted(slices.Values(n))
	median = s[len(s)/2]
	if len(s)%2 == 0 {
		median = (s[len(s)/2-1] + median) / 2
	}
	return s[0], median, s[(len(s)*95+99)/100-1]
}

func (n numbers) median() float64 {
	_, m, _ := n.spread()
	return m
}

// scenarioNumbers are the results of one scenario, in ms except Ratio.
type scenarioNumbers struct {
	scenario scenario

	Name   string  `json:"name"`
	Podrun numbers `json:"podrunMs"`
	Bare   numbers `json:"bareMs"`
	Ratio  numbers `json:"ratio"` // pair by pair
	// Overhead is podrun's own time, one number per process.
	Overhead numbers `json:"overheadMs"`
	// Processor is the processor time of the same processes, which depends less on the
	// load of the machine.
	Processor numbers `json:"processorMs"`
	// Reaction is the time from when the runtime reports an exit to the next
	// CreateContainer, ReactionToExit from the exit itself.
	Reaction       numbers `json:"reactionMs,omitempty"`
	ReactionToExit numbers `json:"reactionToExitMs,omitempty"`
	// Calls are the calls of one podrun process by method.
	Calls map[string]int `json:"calls"`
}

func (n *scenarioNumbers) addTrace(t trace) {
	n.Overhead.add(t.overhead())
	n.Processor.add(t.Processor)
	for _, d := range t.reactions(false) {
		n.Reaction.add(d)
	}
	for _, d := range t.reactions(true) {
		n.ReactionToExit.add(d)
	}
	clear(n.Calls)
	for _, c := range t.calls {
		n.Calls[c.Method]++
	}
}

// processNumbers are those of the binary and its process.
type processNumbers struct {
	Start     numbers `json:"startMs"`   // of version --client
	Empty     numbers `json:"emptyMs"`   // of an empty Go program
	PeakMB    float64 `json:"peakMB"`    // of apply with ten containers
	PeakDirMB float64 `json:"peakDirMB"` // of apply of a directory of pods
	BinaryMB  float64 `json:"binaryMB"`
	Stripped  bool    `json:"stripped"`

	floor float64 // lower bound of PeakMB
}

type report struct {
	CPUs        int                `json:"cpus"`
	Pairs       int                `json:"pairs"`
	Process     processNumbers     `json:"process"`
	Scenarios   []*scenarioNumbers `json:"scenarios"`
	Differences []*difference      `json:"differences"`
	Growth      []growth           `json:"growth"`
	Images      *imageNumbers      `json:"images,omitempty"`
}

func newReport(o options) *report { return &report{CPUs: runtime.NumCPU(), Pairs: o.pairs} }

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// writeTable prints the numbers next to their targets.
func (r *report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d processors, %d pairs\tpodrun\tbare\tmin / median / p95\ttarget\t\n", r.CPUs, r.Pairs)
	row := func(name, ours, theirs, spread string, value, target float64, format string) {
		want, mark := "-", ""
		if target > 0 {
			want, mark = "<= "+fmt.Sprintf(format, target), "pass"
			if value > target {
				mark = "FAIL"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", name, ours, theirs, spread, want, mark)
	}
	ms := func(n numbers) string { return fmt.Sprintf("%.0f ms", n.median()) }
	three := func(n numbers, format string) string {
		least, median, p95 := n.spread()
		return fmt.Sprintf(format+" / "+format+" / "+format, least, median, p95)
	}
	for _, n := range r.Scenarios {
		row("wall, "+n.Name, ms(n.Podrun), ms(n.Bare), three(n.Ratio, "%.2f"), n.Ratio.median(), n.scenario.MaxRatio, "%.2f")
	}
	for _, n := range r.Scenarios {
		row("own overhead, "+n.Name, fmt.Sprintf("%.1f ms", n.Overhead.median()), "", three(n.Overhead, "%.1f"), n.Overhead.median(), n.scenario.MaxOverhead, "%.0f ms")
	}
	for _, n := range r.Scenarios {
		row("processor time, "+n.Name, fmt.Sprintf("%.1f ms", n.Processor.median()), "", three(n.Processor, "%.1f"), 0, 0, "")
	}
	for _, n := range r.Scenarios {
		if len(n.Reaction) > 0 {
			row("next init, after the runtime tells", fmt.Sprintf("%.1f ms", n.Reaction.median()), "", three(n.Reaction, "%.1f"), n.Reaction.median(), maxReaction, "%.0f ms")
			row("next init, after the exit", fmt.Sprintf("%.1f ms", n.ReactionToExit.median()), "", three(n.ReactionToExit, "%.1f"), 0, 0, "")
		}
	}
	for _, d := range r.Differences {
		if d.ratio {
			row(d.Name, ms(d.Ours), ms(d.Theirs), three(d.Ratio, "%.2f"), d.Ratio.median(), d.target, "%.2f")
			continue
		}
		floor := ""
		if len(d.Floor) > 0 {
			floor = ms(d.Floor)
		}
		row(d.Name+", extra", ms(d.Extra), floor, three(d.Extra, "%.0f"), d.Extra.median(), d.target, "%.0f ms")
	}
	if n := r.Images; n != nil {
		row(fmt.Sprintf("pull of %d images, against a bare client", imageCount), ms(n.Podrun), ms(n.Bare), three(n.Podrun, "%.0f"), n.Podrun.median()/n.Bare.median(), maxPulls, "%.2f")
		row("the same, against one after the other", ms(n.Podrun), ms(n.OneByOne), three(n.OneByOne, "%.0f"), n.Podrun.median()/n.OneByOne.median(), maxOneByOne, "%.2f")
		row("requests to the registry, image present", fmt.Sprint(n.Warm), "", "", float64(n.Warm), 0.5, "%.0f")
	}
	r.growthRows(row, three)
	p := r.Process
	row("peak memory, "+directory, fmt.Sprintf("%.1f MB", p.PeakDirMB), "", "", p.PeakDirMB, maxMemoryDir, "%.0f MB")
	row("podrun version --client, against an empty Go program", fmt.Sprintf("%.1f ms", p.Start.median()), fmt.Sprintf("%.1f ms", p.Empty.median()), three(p.Start, "%.1f"), p.Start.median(), maxStart, "%.0f ms")
	row("peak memory, "+tenContainers, p.peak(), "", "", p.PeakMB, maxMemory, "%.0f MB")
	row("binary"+p.symbols(), fmt.Sprintf("%.1f MB", p.BinaryMB), "", "", p.BinaryMB, maxBinary, "%.0f MB")
	return t.Flush()
}

// growthRows prints the time that pods on the host add to commands.
func (r *report) growthRows(row func(name, ours, theirs, spread string, value, target float64, format string), three func(n numbers, format string) string) {
	commands := []struct {
		name            string
		of              func(growth) timing
		maxWall, maxOwn float64
	}{
		{"apply", func(g growth) timing { return g.Apply }, maxApplyGrowth, 0},
		{"get NAME", func(g growth) timing { return g.Get }, 0, maxOtherGrowth},
		{"delete NAME", func(g growth) timing { return g.Delete }, 0, maxOtherGrowth},
	}
	for _, g := range r.Growth {
		for _, c := range commands {
			n := c.of(g)
			row(fmt.Sprintf("%s, %d pods on the fake", c.name, g.Pods), fmt.Sprintf("%.1f ms", n.Wall.median()), "", three(n.Wall, "%.1f"), 0, 0, "")
			row("… processor time of podrun", fmt.Sprintf("%.1f ms", n.Own.median()), "", three(n.Own, "%.1f"), 0, 0, "")
		}
	}
	last := len(r.Growth) - 1
	if last <= 0 {
		return
	}
	for _, c := range commands {
		a, b := c.of(r.Growth[0]), c.of(r.Growth[last])
		each := func(name string, few, many numbers, most float64) {
			per := max(0, 1000*(many.median()-few.median())/float64(r.Growth[last].Pods-r.Growth[0].Pods))
			row("… "+c.name+", "+name, fmt.Sprintf("%.1f µs", per), "", "", per, most, "%.0f µs")
		}
		each("a pod that is there", a.Wall, b.Wall, c.maxWall)
		each("a pod that is there, processor time of podrun", a.Own, b.Own, c.maxOwn)
	}
}

// peak returns the peak memory, which is only an upper bound if the bench's own peak is
// as high.
func (p processNumbers) peak() string {
	if p.PeakMB <= p.floor {
		return fmt.Sprintf("at most %.1f MB", p.PeakMB)
	}
	return fmt.Sprintf("%.1f MB", p.PeakMB)
}

func (p processNumbers) symbols() string {
	if p.Stripped {
		return ", stripped"
	}
	return ", with symbols"
}

package main

import (
	"encoding/json"
	"io"
	"runtime"
	"slices"
	"time"
)

// numbers are samples, which are milliseconds or ratios.
type numbers []float64

func (n *numbers) add(d time.Duration) { *n = append(*n, float64(d.Microseconds())/1000) }

// spread returns the minimum, the median and the 95th percentile; or zeros if there are no samples.
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
	Ratio  numbers `json:"ratio"` // of each pair
	// Overhead is podrun's own time, one number per process.
	Overhead numbers `json:"overheadMs"`
	// Processor is the CPU time of the same processes. It depends less on the load of the
	// machine.
	Processor numbers `json:"processorMs"`
	// Reaction is the time from the runtime's report of an exit to the next StartContainer.
	// ReactionToExit is the time from the exit itself.
	Reaction       numbers `json:"reactionMs,omitempty"`
	ReactionToExit numbers `json:"reactionToExitMs,omitempty"`
	// Calls contains the number of calls of one podrun process, by method.
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

// processNumbers are the numbers of the binary and its process.
type processNumbers struct {
	Start    numbers `json:"startMs"` // durations of version --client
	Empty    numbers `json:"emptyMs"` // start of an empty Go program
	BinaryMB float64 `json:"binaryMB"`
	Stripped bool    `json:"stripped"`
}

// peak is the peak memory of the podrun process that starts a scenario.
type peak struct {
	Name string  `json:"name"`
	MB   float64 `json:"peakMB"`

	floor float64 // the smallest value that can be measured
	max   float64
}

// report contains the numbers of the measured sections.
type report struct {
	CPUs        int                `json:"cpus"`
	Pairs       int                `json:"pairs"`
	Process     processNumbers     `json:"process"`
	Memory      []peak             `json:"memory"`
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

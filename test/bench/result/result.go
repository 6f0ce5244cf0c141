// Package result contains the figures of the bench: their statistics, the file with the figures of
// one run, and the tables of README.md and docs/speed.md, which are generated from the last runs.
// Only ReadAll and Write access files; the other functions are pure.
package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Result is one run of the bench. Its JSON form is the file of the run.
type Result struct {
	Target   string            `json:"target"` // of make, such as bench
	Time     time.Time         `json:"time"`   // of the beginning
	Seconds  float64           `json:"seconds"`
	Commit   string            `json:"commit"` // ends with -dirty if the work tree had changes
	Machine  string            `json:"machine"`
	Kernel   string            `json:"kernel"`
	Load     string            `json:"load"` // load averages before the first row, as in /proc/loadavg
	Versions map[string]string `json:"versions"`
	Rows     []Row             `json:"rows"`
}

// Row is one figure of a run.
type Row struct {
	Name string `json:"name"` // identifies the figure in all runs
	Unit string `json:"unit"` // "×" for a ratio of two programs, otherwise such as "ms"
	Statistic
	// Programs contains the programs that started alternately, podrun first. It is empty for a figure
	// of podrun alone.
	Programs []Program `json:"programs,omitempty"`
	// Old is present if the run included a second podrun.
	Old *Old `json:"old,omitempty"`
}

// Program contains the figures of one program of a row.
type Program struct {
	Name string    `json:"name"`
	Time Statistic `json:"ms"`
	// Faults and Forks are the medians of the page faults and of the new processes and threads of the
	// whole system while the program ran.
	Faults float64 `json:"faults"`
	Forks  float64 `json:"forks"`
}

// Old compares a figure with that of the second podrun.
type Old struct {
	Statistic           // the figure of the second podrun
	Change    Statistic `json:"change"` // podrun's figure divided by that of the second podrun, of each round
	Verdict   Verdict   `json:"verdict"`
}

// NewRow returns the row of the samples of a figure. The samples of the second podrun are from the
// same rounds, or absent.
func NewRow(name, unit string, samples, old []float64, programs ...Program) Row {
	r := Row{Name: name, Unit: unit, Statistic: Summarize(samples), Programs: programs}
	if len(old) > 0 {
		change := Summarize(Ratios(samples, old))
		r.Old = &Old{Statistic: Summarize(old), Change: change, Verdict: change.Verdict()}
	}
	return r
}

// Encode returns the file of the run. Each row is one line, so that a diff shows which rows have
// changed.
func (r Result) Encode() ([]byte, error) {
	rows := make([]json.RawMessage, len(r.Rows))
	for i, row := range r.Rows {
		var err error
		if rows[i], err = json.Marshal(row); err != nil {
			return nil, err
		}
	}
	r.Rows = nil
	head, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(bytes.TrimSuffix(head, []byte("null\n}")))
	b.WriteString("[")
	for i, row := range rows {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n    ")
		b.Write(row)
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes(), nil
}

// Write writes the file of a run into a directory, and returns its path. The name of the file
// contains the target and the time.
func Write(dir string, r Result) (string, error) {
	data, err := r.Encode()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%s.json", r.Target, r.Time.UTC().Format("20060102T150405Z")))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o644)
}

// ReadAll returns the runs of a directory, the oldest first.
func ReadAll(dir string) ([]Result, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Result
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r Result
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Result) int { return a.Time.Compare(b.Time) })
	return all, nil
}
